#!/bin/bash
# SPDX-FileCopyrightText: The slurmscope authors
# SPDX-License-Identifier: Apache-2.0
#
# Two roles and two users: slurmscope writes its indices, Grafana reads them. Run at each start, which does no harm, and
# brings a password that was changed in .env.
set -eu

put() { # PATH, and what to put on standard input
  curl --silent --show-error --fail --cacert /ca/ca.crt --user "elastic:$ELASTIC_PASSWORD" \
    --request PUT --header 'Content-Type: application/json' --data-binary @- \
    "https://elasticsearch:9200/_security/$1"
  echo
}

put role/slurmscope <<'EOF'
{"cluster": ["manage_index_templates"], "indices": [{"names": ["slurmscope-*"], "privileges": ["create_index", "index"]}]}
EOF
put role/slurmscope_reader <<'EOF'
{"cluster": ["monitor"], "indices": [{"names": ["slurmscope-*"], "privileges": ["read", "view_index_metadata"]}]}
EOF
put user/slurmscope <<EOF
{"password": "$SLURMSCOPE_PASSWORD", "roles": ["slurmscope"]}
EOF
put user/grafana <<EOF
{"password": "$GRAFANA_PASSWORD", "roles": ["slurmscope_reader"]}
EOF

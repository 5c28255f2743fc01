# SPDX-FileCopyrightText: The slurmscope authors
# SPDX-License-Identifier: Apache-2.0
"""Makes dashboards/*.json, the Grafana dashboards over what Prometheus scrapes."""

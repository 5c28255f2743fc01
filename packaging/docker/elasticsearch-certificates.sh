#!/bin/bash
# SPDX-FileCopyrightText: The slurmscope authors
# SPDX-License-Identifier: Apache-2.0
#
# An authority of our own and a certificate for the name `elasticsearch`, as Elastic's own set-ups make them. The
# authority's certificate alone is put where others see it.
set -eu
cd /usr/share/elasticsearch
certs=$PWD/config/certs

if [ ! -f "$certs/elasticsearch/elasticsearch.crt" ]; then
  rm -rf "${certs:?}"/*
  bin/elasticsearch-certutil ca --silent --pem --days 3650 --out "$certs/ca.zip"
  unzip -q "$certs/ca.zip" -d "$certs"
  bin/elasticsearch-certutil cert --silent --pem --days 3650 --out "$certs/certificate.zip" \
    --ca-cert "$certs/ca/ca.crt" --ca-key "$certs/ca/ca.key" \
    --name elasticsearch --dns elasticsearch,localhost --ip 127.0.0.1
  unzip -q "$certs/certificate.zip" -d "$certs"
  rm "$certs/ca.zip" "$certs/certificate.zip"
fi

# Elasticsearch is of the group root
chown -R root:root "$certs"
find "$certs" -type d -exec chmod 750 {} +
find "$certs" -type f -exec chmod 640 {} +
install -m 644 "$certs/ca/ca.crt" /ca/ca.crt
chmod 755 /ca

# SPDX-FileCopyrightText: The slurmscope authors
# SPDX-License-Identifier: Apache-2.0
"""Makes dashboards/slurmscope.json, the Grafana dashboard over `/metrics`."""

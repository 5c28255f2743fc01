# SPDX-FileCopyrightText: The slurmscope authors
# SPDX-License-Identifier: Apache-2.0
"""Where data is sent, rather than asked for: Elasticsearch, CloudWatch, a Pushgateway."""

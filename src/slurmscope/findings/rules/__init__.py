# SPDX-FileCopyrightText: The slurmscope authors
# SPDX-License-Identifier: Apache-2.0
"""One file a rule. A module's RULE is found by catalogue.py."""

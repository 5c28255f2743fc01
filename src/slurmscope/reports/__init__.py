# SPDX-FileCopyrightText: The slurmscope authors
# SPDX-License-Identifier: Apache-2.0
"""What people are told: one model of a document, made by nouns (job, array, user, …), rendered in several forms."""

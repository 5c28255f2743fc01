# SPDX-FileCopyrightText: The slurmscope authors
# SPDX-License-Identifier: Apache-2.0
"""Tracing: what jobs tell of themselves, the wrapper that tells it, and the endpoint that takes it."""

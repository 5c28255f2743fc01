# SPDX-FileCopyrightText: The slurmscope authors
# SPDX-License-Identifier: Apache-2.0
"""What was measured within jobs, as `serve` takes it, shows it, and keeps what it comes to."""

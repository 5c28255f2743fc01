# SPDX-FileCopyrightText: The slurmscope authors
# SPDX-License-Identifier: Apache-2.0
"""What pages must know of sign-in by OpenID Connect without loading it."""

from __future__ import annotations


class OidcError(Exception):
    """Nobody is signed in; the message says why, and what to do."""

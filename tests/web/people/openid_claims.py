# SPDX-FileCopyrightText: The slurmscope authors
# SPDX-License-Identifier: Apache-2.0
"""What the provider of openid_site.py says of its user."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from oauth2_provider.oauth2_validators import OAuth2Validator


class Validator(OAuth2Validator):  # type: ignore[misc] # it has no types
    def get_additional_claims(self) -> dict[str, Callable[[Any], str]]:
        return {"preferred_username": lambda request: request.user.username}

# SPDX-FileCopyrightText: The slurmscope authors
# SPDX-License-Identifier: Apache-2.0
"""What a page may raise instead of an answer. Whoever catches it gives it the form that was asked for.

Refusal        with a sentence, and what to do next
  NotFound     there is none, or none that this viewer may see: both look the same
  Wrong        what was asked for cannot be meant
  SignInFirst  only for those who have said who they are
  Forbidden    a form that was not made here, or is too old
  NotNow       it may be there later
"""

from __future__ import annotations

from slurmscope.words import english


class Refusal(Exception):
    status = 500
    title = "Something went wrong"
    again: int | None = None  # seconds after which a program may try again

    def __init__(self, text: str, cure: str = "", link: str = "", **values: object) -> None:
        """`link` is where the cure is; `values` are put into the text and the cure, where their names are in braces."""
        self.said = text
        self.said_cure = cure
        self.values = values
        self.link = link
        super().__init__(self.text)

    @property
    def text(self) -> str:
        return english(self.said, **self.values)

    @property
    def cure(self) -> str:
        return english(self.said_cure, **self.values)


class NotFound(Refusal):
    status = 404
    title = "Not here"


class Wrong(Refusal):
    status = 400
    title = "This cannot be meant"


class SignInFirst(Refusal):
    status = 401
    title = "Please sign in"


class Forbidden(Refusal):
    status = 403
    title = "This form is too old"


class NotNow(Refusal):
    status = 503
    title = "Not now"
    again = 10

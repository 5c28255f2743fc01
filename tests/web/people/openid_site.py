# SPDX-FileCopyrightText: The slurmscope authors
# SPDX-License-Identifier: Apache-2.0
"""An OpenID provider of django-oauth-toolkit: a program of its own, for tests. Its settings are in the environment.

OPENID_FOLDER    where its database is
OPENID_PORT      where it listens, on loopback
OPENID_ISSUER    what it calls itself
OPENID_KEY       the private key that it signs with (PEM)
OPENID_CLIENT, OPENID_SECRET, OPENID_REDIRECT   the one client that it knows
OPENID_USER, OPENID_PASSWORD                    the one user
"""

from __future__ import annotations

import os
from pathlib import Path

import django
from django.conf import settings
from django.core.management import call_command
from django.urls import include, path

ENV = {name.removeprefix("OPENID_").lower(): value for name, value in os.environ.items() if name.startswith("OPENID_")}

LOGIN = (
    '<form method="post">{% csrf_token %}{{ form.as_p }}<input type="hidden" name="next" value="{{ next }}">'
    '<button type="submit">Go on</button></form>'
)


def main() -> None:
    settings.configure(
        SECRET_KEY="of a test",
        ROOT_URLCONF=Path(__file__).stem,
        ALLOWED_HOSTS=["*"],
        INSTALLED_APPS=[
            "django.contrib.auth",
            "django.contrib.contenttypes",
            "django.contrib.sessions",
            "oauth2_provider",
        ],
        MIDDLEWARE=[
            "django.contrib.sessions.middleware.SessionMiddleware",
            "django.middleware.csrf.CsrfViewMiddleware",
            "django.contrib.auth.middleware.AuthenticationMiddleware",
        ],
        DATABASES={"default": {"ENGINE": "django.db.backends.sqlite3", "NAME": Path(ENV["folder"]) / "openid.db"}},
        TEMPLATES=[
            {
                "BACKEND": "django.template.backends.django.DjangoTemplates",
                "OPTIONS": {
                    "loaders": [("django.template.loaders.locmem.Loader", {"registration/login.html": LOGIN})],
                    "context_processors": ["django.template.context_processors.request"],
                },
            }
        ],
        LOGIN_URL="/login/",
        PASSWORD_HASHERS=["django.contrib.auth.hashers.MD5PasswordHasher"],  # quick: nobody guesses here
        USE_TZ=True,
        DEFAULT_AUTO_FIELD="django.db.models.BigAutoField",
        OAUTH2_PROVIDER={
            "OIDC_ENABLED": True,
            "OIDC_RSA_PRIVATE_KEY": ENV["key"],
            "OIDC_ISS_ENDPOINT": ENV["issuer"],
            "OAUTH2_VALIDATOR_CLASS": "openid_claims.Validator",
            "PKCE_REQUIRED": True,
            "SCOPES": {"openid": "who you are", "profile": "what you are called"},
        },
    )
    django.setup()
    call_command("migrate", verbosity=0)
    _people()
    call_command("runserver", f"127.0.0.1:{ENV['port']}", "--noreload", "--skip-checks")


def _people() -> None:
    from django.contrib.auth import get_user_model
    from oauth2_provider.models import get_application_model

    users, applications = get_user_model().objects, get_application_model().objects
    if not users.filter(username=ENV["user"]).exists():
        users.create_user(ENV["user"], password=ENV["password"])
    if not applications.filter(client_id=ENV["client"]).exists():
        applications.create(
            client_id=ENV["client"],
            client_secret=ENV["secret"],
            redirect_uris=ENV["redirect"],
            client_type="confidential",
            authorization_grant_type="authorization-code",
            algorithm="RS256",
            skip_authorization=True,
            name="slurmscope",
        )


def _urls() -> list[object]:
    from django.contrib.auth.views import LoginView

    return [path("login/", LoginView.as_view()), path("o/", include("oauth2_provider.urls"))]


if __name__ == "__main__":
    main()
else:
    urlpatterns = _urls()

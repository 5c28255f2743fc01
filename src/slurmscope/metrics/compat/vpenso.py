# SPDX-FileCopyrightText: The slurmscope authors
# SPDX-License-Identifier: Apache-2.0
from slurmscope.metrics.exposition import Topic
from slurmscope.metrics.view import View

TOPICS: tuple[Topic[View], ...] = ()

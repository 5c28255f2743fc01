# SPDX-FileCopyrightText: The slurmscope authors
# SPDX-License-Identifier: Apache-2.0
"""Answers that are trees: JSON of Slurm's commands and of slurmrestd, and what PySlurm told.

A number stays, unless it is a user's or a group's. A string stays only under a key that is known, by the rule that
the key has; all others become empty.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any

from slurmscope.anonymise import rules
from slurmscope.anonymise.pseudonyms import STANDING, Seen
from slurmscope.anonymise.rules import Rule
from slurmscope.slurm.text import Malformed


def _keys(rule: Rule, keys: str) -> dict[str, Rule]:
    return dict.fromkeys(keys.split(), rule)


_RULES: dict[str, Rule] = {
    # jobs
    **_keys(rules.name, "account user_name group_name wckey mcs_label cluster selinux_context"),
    **_keys(rules.reservation, "resv_name reservation"),
    **_keys(rules.name_list, "federation_origin federation_siblings_active"),
    **_keys(rules.name_list, "federation_siblings_viable"),
    **_keys(rules.job_name, "name"),
    **_keys(rules.host, "nodes allocating_node batch_host excluded_nodes required_nodes scheduled_nodes failed_node"),
    **_keys(rules.host, "alloc_node submit_host sched_nodes exc_nodes req_nodes allocated_nodes list nodename"),
    **_keys(rules.path, "current_working_directory command container standard_error standard_input standard_output"),
    **_keys(rules.path, "stderr_expanded stdin_expanded stdout_expanded work_dir working_directory std_err std_in"),
    **_keys(rules.path, "std_out"),
    **_keys(rules.free, "comment admin_comment system_comment extra submit_line"),
    **_keys(rules.mail, "mail_user"),
    **_keys(rules.reason, "state_reason state_description"),
    **_keys(rules.dependency, "dependency dependencies"),
    **_keys(rules.word, "partition qos job_state state base_state features prefer batch_features cluster_features"),
    **_keys(
        rules.word, "licenses licenses_allocated gres_detail tres_alloc_str tres_req_str tres_per_job tres_per_node"
    ),
    **_keys(rules.word, "tres_per_socket tres_per_task tres_bind tres_freq cpus_per_tres memory_per_tres mem_per_tres"),
    **_keys(rules.word, "constraints flags show_flags"),
    **_keys(rules.number, "array_task_string array_task_str array_tasks_waiting het_job_id_set derived_ec exit_code"),
    **_keys(rules.number, "time_limit time_limit_str"),
    "task": rules.tasks,
    **_keys(rules.word, "profile shared exclusive resource_sharing select_type status"),
    # nodes
    **_keys(rules.host, "hostname address node_addr node_hostname bcast_address burstbuffer_network_address"),
    **_keys(rules.name, "reason_set_by_user reason_user owner cluster_name"),
    **_keys(rules.node_reason, "reason"),
    **_keys(rules.word, "active_features available_features features_active gres gres_used gres_drained gres_drain"),
    **_keys(rules.word, "tres tres_used tres_fmt_str partitions state_flags next_state next_state_after_reboot"),
    **_keys(rules.word, "architecture arch"),
    **_keys(rules.plain, "version slurmd_version slurm_version"),
    **_keys(rules.number, "specialized_cpus"),
    # partitions, reservations, licences
    **_keys(rules.name_list, "allowed_accounts denied_accounts allow_accounts deny_accounts allowed_groups"),
    **_keys(rules.name_list, "allow_groups users accounts groups"),
    **_keys(
        rules.host, "configured allowed_allocation allowed_allocation_nodes allowed_submit_nodes allow_alloc_nodes"
    ),
    **_keys(rules.host, "node_list Nodes"),
    **_keys(rules.word, "allowed_qos denied_qos allow_qos deny_qos alternate alternative billing_weights LicenseName"),
    **_keys(rules.word, "tres_str qos_char reoccurrence"),
    **_keys(rules.word, "preemption_mode preempt_mode oversubscribe Shared Default Hidden LLN RootOnly"),
    **_keys(rules.number, "max_time max_time_str default_time default_time_str max_nodes over_time_limit"),
    # shares, statistics, pings
    **_keys(rules.name, "parent user"),
    **_keys(rules.word, "message_type rpc type"),
    **_keys(rules.word, "mode ping pinged"),
    # the head of a document
    **_keys(rules.plain, "release major minor micro"),
    **_keys(rules.word, "data_parser accounting_storage"),
    **_keys(rules.plain, "api pyslurm slurm"),
    **_keys(rules.error, "error description"),
}
# … and where a key means something else below another.
_BELOW: dict[tuple[str, str], Rule] = {
    **{(above, "name"): rules.host for above in ("nodes", "allocation", "node")},
    **{(above, "name"): rules.word for above in ("partitions", "usage", "group_minutes", "run_seconds")},
    **{(above, "name"): rules.word for above in ("signal", "plugin")},
    **{("plugin", key): rules.word for key in ("type", "data_parser")},
    **{("accounts", key): rules.name_list for key in ("allowed", "deny")},
    **{("groups", key): rules.name_list for key in ("allowed", "deny")},
    **{("qos", key): rules.word for key in ("allowed", "deny", "assigned")},
    **{(above, "name"): rules.word for above in ("allocated", "requested", "max", "total")},
    ("step", "id"): rules.step,
    ("reservation", "name"): rules.reservation,
    ("state", "current"): rules.word,
    ("state", "reason"): rules.reason,
    **{(above, "name"): rules.name for above in ("shares", "accounts", "coordinators")},
    ("reservations", "name"): rules.reservation,
    ("client", "group"): rules.name,
    ("tres", "configured"): rules.word,
    # what PySlurm has of slurm.conf
    **{
        ("config", key): rules.word
        for key in ("accounting_storage_type", "accounting_storage_tres", "private_data", "priority_type", "version")
    },
    **{("config", key): rules.word for key in ("job_acct_gather_type", "proctrack_type")},
    ("config", "accounting_storage_host"): rules.host,
    ("config", "slurm_user_name"): rules.name,
}
# Maps whose keys are names, and by which rule; PySlurm's, as all that follows.
_KEYED: Mapping[str, Rule] = {
    "rpc_user_stats": rules.name,
    "rpcs_by_user": rules.name,
    "cpus_allocated": rules.host,
    "cpus_alloc_layout": rules.host,
    "resource_layout": rules.host,
    "rpc_type_stats": rules.word,
    "rpcs_by_type": rules.word,
    "rpcs_pending": rules.word,
    "tres": rules.word,
    "configured_gres": rules.word,
    "allocated_gres": rules.word,
    "allocated_tres": rules.word,
    "gres_per_node": rules.word,
    "licenses": rules.word,
}
_RECORDS: Mapping[str, Rule] = {"nodes": rules.host, "partitions": rules.word, "reservations": rules.reservation}
_MAPS = frozenset({"energy", "external_sensors", "power_mgmt", "stats", "flags", "schedule_exit", "backfill_exit"})
_ID = re.compile(r"(?:.*_)?(?:uid|gid|user_id|group_id)")
_FIELD = re.compile(r"[A-Za-z][\w -]*|\d+", re.ASCII)
# What no reader of ours looks at, under short words that people call their jobs and themselves.
_UNREAD = frozenset({"het", "block", "mcs", "group"})
_LIMITLESS = frozenset({"UNLIMITED", "INFINITE"})


class _Tree:
    def __init__(self, names: Seen, maps: frozenset[str] | None) -> None:
        self._names = names
        self._maps = maps  # the maps that are known; None for all, where no key can be a name

    def changed(self, value: Any, above: str, key: str) -> Any:
        """A value under a key, which is below another."""
        if isinstance(value, dict):
            return self._map(value, key)
        if isinstance(value, list):
            return [self.changed(one, above, key) for one in value]
        if isinstance(value, str):
            return self._string(value, above, key)
        if type(value) is int and _ID.fullmatch(key):
            return self._names.id(value)
        return value

    def _string(self, value: str, above: str, key: str) -> str:
        if value in _LIMITLESS or (value in STANDING and key != "name"):
            return value
        rule = _BELOW.get((above, key)) or _RULES.get(key, rules.drop)
        return rule(self._names, value)

    def _map(self, value: dict[str, Any], key: str) -> dict[str, Any]:
        if _ID.fullmatch(key):  # {"set": true, "infinite": false, "number": 1001}
            return {
                one: self.changed(some, "", key) for one, some in value.items() if one in ("set", "infinite", "number")
            }
        if self._maps is not None and key in _KEYED:
            return {_KEYED[key](self._names, one): self._entry(some, key) for one, some in value.items()}
        if self._maps is not None and key not in self._maps:
            return {}
        return self.record(value, key)

    def _entry(self, value: Any, key: str) -> Any:
        """What a map has under a name."""
        if isinstance(value, dict):
            user = _KEYED[key] is rules.name
            return {
                one: self._names.id(some)
                if user and one == "id" and type(some) is int
                else self.changed(some, key, one)
                for one, some in value.items()
                if _FIELD.fullmatch(one)
            }
        if isinstance(value, str):
            return rules.number(self._names, value) if _KEYED[key] is rules.word else ""
        return self.changed(value, "", "")

    def record(self, value: dict[str, Any], key: str) -> dict[str, Any]:
        found = {}
        for one, some in value.items():
            if _FIELD.fullmatch(one) and one not in _UNREAD:
                self._names.word(one)
                found[one] = self.changed(some, key, one)
        return found


def _loaded(data: str) -> dict[str, Any]:
    try:
        found = json.loads(data)
    except (ValueError, RecursionError) as error:
        raise Malformed("not JSON") from error
    if not isinstance(found, dict):
        raise Malformed("not an object")
    return found


def by_json(names: Seen, data: str, part: str) -> str:
    return json.dumps(_Tree(names, None).record(_loaded(data), ""), ensure_ascii=False)


def by_pyslurm(names: Seen, data: str, part: str) -> str:
    """{"api": …, "users": names by number, "records": by id or name, or one record}"""
    found = _loaded(data)
    records, users = found.pop("records", None), found.pop("users", {})
    if not isinstance(records, dict) or not isinstance(users, dict):
        raise Malformed("no records of PySlurm's")
    tree = _Tree(names, _MAPS)
    head = {key: tree.changed(value, "", key) for key, value in found.items() if _FIELD.fullmatch(key)}
    head["users"] = {
        str(names.id(int(id_))): rules.name(names, name)
        for id_, name in users.items()
        if id_.isascii() and id_.isdigit() and isinstance(name, str)
    }
    if part in ("scheduler", "config"):
        head["records"] = tree.record(records, part)
    else:
        rule = _RECORDS.get(part, rules.number)
        head["records"] = {
            rule(names, key): tree.record(record, part) for key, record in records.items() if isinstance(record, dict)
        }
    return json.dumps(head, ensure_ascii=False)

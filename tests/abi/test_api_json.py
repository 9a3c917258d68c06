#!/usr/bin/env python3
"""scripts/api_json.py refuses a header in which it is not clear what something means.

tests/abi/test_api_json.py [unittest's arguments]
"""

import re
import sys
import tempfile
import unittest
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "scripts"))
import api_json
import api_members
import api_numbers

HEADER = api_json.root / "include/ucxx_rs.h"


class Planted(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.text = HEADER.read_text(encoding="utf-8")

    def described(self, *changes):
        """The description of a header with these changes, each of which is at one place."""
        text = self.text
        for old, new in changes:
            self.assertEqual(text.count(old), 1, f"{old} is not there once")
            text = text.replace(old, new)
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / HEADER.name
            path.write_text(text, encoding="utf-8")
            return api_json.Api(path).describe()

    def refused(self, why, *changes):
        with self.assertRaisesRegex(api_numbers.Unclear, why):
            self.described(*changes)

    def find(self, described, *names):
        for name in names:
            parts = (
                "enums",
                "structs",
                "callbacks",
                "functions",
                "members",
                "parameters",
                "values",
            )
            each = [one for part in parts for one in described.get(part, [])]
            (described,) = (one for one in each if one["name"] == name)
        return described

    def test_a_change_of_a_comment_is_seen(self):
        before = api_json.written(self.described())
        self.assertEqual(before, api_json.OUTPUT.read_text(encoding="utf-8"))
        after = self.described(("Which networks a context uses.", "Which networks it uses."))
        self.assertNotEqual(before, api_json.written(after))


class Numbers(Planted):
    def enum(self, described, *names):
        type = self.find(described, *names)["type"]
        return (type["to"] if "to" in type else type).get("enum")

    def test_the_comment_the_name_and_the_table(self):
        described = self.described()
        for enum, *names in (
            ("ucxx_network", "ucxx_context_params_t", "network"),
            ("ucxx_close", "ucxx_endpoint_close", "how"),
            # By their names.
            ("ucxx_log_level", "ucxx_log_callback_t", "level"),
            ("ucxx_assert", "ucxx_window_lock_all", "assertions"),
            # By the table.
            ("ucxx_reduce", "ucxx_window_raccumulate", "op"),
            (None, "ucxx_buffer_t", "device_id"),
            (None, "ucxx_window_test", "done"),
            (None, "ucxx_window_lock", "target"),
        ):
            self.assertEqual(self.enum(described, *names), enum, names)
        result = self.find(described, "ucxx_window_path")["result"]
        self.assertEqual((result["enum"], result["or_status"]), ("ucxx_path", True))

    def test_flags(self):
        described = self.described()
        flags = {each["name"]: each["type"] for each in described["enums"] if each["flags"]}
        wanted = {"ucxx_feature": "uint64_t", "ucxx_flag": "uint64_t", "ucxx_assert": "uint32_t"}
        self.assertEqual(flags, wanted)

    def test_a_number_of_which_nothing_is_said(self):
        self.refused("ucxx_context_params_t.network: which constants", ("UCXX_NETWORK_*.", "How."))
        self.refused(
            "ucxx_new.one: which constants",
            ("uint16_t ucxx_listener_port(", "void ucxx_new(int32_t one);uint16_t ucxx_listener_port("),
        )  # fmt: skip
        self.refused(
            "ucxx_listener_port: which", ("uint16_t ucxx_listener", "int32_t ucxx_listener")
        )

    def test_constants_that_do_not_exist(self):
        self.refused("UCXX_NETWRK_ is of no enumeration", ("UCXX_NETWORK_*.", "UCXX_NETWRK_*."))

    def test_a_name_with_two_meanings(self):
        self.refused(
            "ucxx_window_\\w+.op: which of ucxx_atomic_op, ucxx_reduce",
            ("`op`: UCXX_REDUCE_*, except", "`op`: as usual, except"),
        )

    def test_an_enumeration_that_nothing_uses(self):
        self.refused("ucxx_network: no number", ("int32_t network;", "uint16_t network;"))

    def test_types_that_differ(self):
        self.refused("ucxx_memory_type: .* int32_t, uint32_t", (
            " */\n  int32_t memory_type;\n  /**\n   * Zero.", " */\n  uint32_t memory_type;\n  /**\n   * Zero."
        ))  # fmt: skip
        self.refused("ucxx_network: unsigned", ("int32_t network;", "uint32_t network;"))

    def test_a_number_that_is_in_the_table_as_plain(self):
        self.refused(
            "device_id: the table says",
            ("Device of the buffer, for memory types", "UCXX_MEMORY_* of devices, for types"),
        )

    def test_a_table_with_what_does_not_exist(self):
        self.addCleanup(api_numbers.PLAIN.pop, "ucxx_gone.one")
        api_numbers.PLAIN["ucxx_gone.one"] = "1 or 0"
        self.refused("not in the header: ucxx_gone.one")


class Members(Planted):
    def test_each_kind(self):
        described = self.described()
        for names, wanted in {
            ("ucxx_op_params_t", "callback"): {
                "nullable": True,
                "runs": "once",
                "arg": "callback_arg",
            },
            ("ucxx_op_params_t", "recv_info"): {"direction": "out", "valid_for": "operation"},
            ("ucxx_op_params_t", "source"): {"nullable": True, "ownership": "borrowed"},
            ("ucxx_op_params_t", "reserved"): {"reserved": True},
            ("ucxx_context_params_t", "config"): {"length": "config_count", "unit": "elements"},
            ("ucxx_buffer_t", "data"): {"direction": "inout", "length": "length", "unit": "bytes"},
            ("ucxx_config_entry_t", "key"): {"direction": "in", "nullable": False},
            ("ucxx_listener_params_t", "on_connect"): {"nullable": True, "runs": "registered"},
            ("ucxx_window_attr_t", "struct_size"): {"direction": "in"},
            ("ucxx_window_attr_t", "data"): {
                "direction": "out",
                "nullable": True,
                "length": "size",
            },
            ("ucxx_completion_t", "handle"): {"direction": "out", "ownership": "owned"},
            ("ucxx_multi_handler_t", "buffers"): {"nullable": True, "ownership": "owned"},
            ("ucxx_multi_handler_t", "reply"): {"nullable": True, "valid_for": "call"},
            ("ucxx_multi_handler_t", "header"): {"length": "header_length", "unit": "bytes"},
            ("ucxx_am_handler_t", "arg"): {"opaque": True, "nullable": True},
            ("ucxx_worker_set_am_handler", "handler"): {"runs": "registered", "arg": "arg"},
            ("ucxx_event", "UCXX_EVENT_FETCH"): {"handle": "ucxx_fetch_t"},
        }.items():
            found = self.find(described, *names)
            self.assertEqual({key: found.get(key) for key in wanted}, wanted, names)
        ways = {each["name"]: each["direction"] for each in described["structs"]}
        self.assertEqual(ways["ucxx_op_params_t"], "in")
        self.assertEqual(ways["ucxx_recv_info_t"], "out")
        self.assertEqual(ways["ucxx_buffer_t"], "inout")

    def test_null(self):
        old = "Operations need not wait for it. Optional."
        self.refused(r"endpoint_params_t.on_open: may it be NULL", (old, old[: -len(" Optional.")]))

    def test_callbacks(self):
        self.refused("on_open: which member", ("void *on_open_arg;", "void *on_open_data;"))
        self.refused("on_open: when", ("Runs once, when the peer has", "Runs when the peer has"))
        self.refused(
            "ucxx_endpoint_on_writable.callback: which parameter",
            (self.one(r"ucxx_endpoint_on_writable\([^)]*\bvoid \*arg"), "ucxx_endpoint_on_writable("
             "ucxx_endpoint_t *endpoint, ucxx_endpoint_callback_t callback, void *data"),
        )  # fmt: skip

    def one(self, pattern):
        (found,) = re.findall(pattern, self.text)
        return found

    def test_lengths(self):
        self.refused("config: how long is it?", ("size_t config_count;", "size_t config_many;"))

    def test_what_the_library_gives(self):
        last = "  uint32_t ucx_copies;\n};"
        self.refused("more: how long is it valid", (last, f"const char *more; {last}"))
        self.refused("more: who destroys", (last, f"ucxx_worker_t *more; {last}"))
        self.refused(
            "ucxx_fetch_handler_t.more: what is it",
            (
                "(*ucxx_fetch_handler_t)(void *arg,",
                "(*ucxx_fetch_handler_t)(void *arg, void *more,",
            ),
        )

    def test_an_event_without_its_handle(self):
        self.refused("ucxx_event: what", ("`handle` is a `ucxx_fetch_t *`", "It is a fetch"))

    def test_a_struct_that_no_function_has(self):
        new = "struct ucxx_new { size_t one; };\ntypedef struct ucxx_new ucxx_new_t;\n"
        begin = "struct ucxx_block {"
        self.refused("no function has ucxx_new_t", (begin, new + begin))

    def test_tables_with_what_does_not_exist(self):
        for table in (api_members.OWNED, api_json.TAKES):
            table.add("ucxx_gone.one")
            self.addCleanup(table.discard, "ucxx_gone.one")
            self.refused("not in the header: ucxx_gone.one")
            table.discard("ucxx_gone.one")


if __name__ == "__main__":
    unittest.main()

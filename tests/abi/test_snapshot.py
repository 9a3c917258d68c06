#!/usr/bin/env python3
"""The installed library matches snapshot.txt; and each kind of difference in a header is found, and
judged as docs/abi.md says.

tests/abi/test_snapshot.py PREFIX [unittest's arguments]
"""

import sys
import tempfile
import unittest
from pathlib import Path

import header
import snapshot

PREFIX = None


class Snapshot(unittest.TestCase):
    def test_the_installed_library(self):
        before = snapshot.SNAPSHOT.read_text(encoding="utf-8").splitlines()
        additions, breaks = snapshot.compare(before, snapshot.take(PREFIX))
        if additions or breaks:
            promised = snapshot.released(before, snapshot.CHANGELOG.read_text(encoding="utf-8"))
            self.fail(snapshot.explain(additions, breaks, promised))


class Changes(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.text = (Path(PREFIX) / "include" / "ucxx_rs.h").read_text(encoding="utf-8")
        cls.before = cls.lines_of(cls.text)

    @staticmethod
    def lines_of(text):
        """The lines of a header alone, with its symbols."""
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "ucxx_rs.h"
            path.write_text(text, encoding="utf-8")
            taken = header.read(path)
            symbols = [f"symbol {function.name}" for function in taken.functions]
            return [
                "library: libucxx_rs.so.0.1",
                *symbols,
                *snapshot.layouts(taken, folder),
                *snapshot.names(taken),
            ]

    def changed(self, old, new):
        self.assertEqual(self.text.count(old), 1, f"{old} is not there once")
        return snapshot.compare(self.before, self.lines_of(self.text.replace(old, new)))

    def breaks(self, old, new, *words):
        _, breaks = self.changed(old, new)
        for word in words:
            self.assertTrue(any(word in line for line in breaks), f"{word} is not in {breaks}")

    def adds(self, old, new, *words):
        additions, breaks = self.changed(old, new)
        self.assertEqual(breaks, [])
        for word in words:
            self.assertTrue(
                any(word in line for line in additions), f"{word} is not in {additions}"
            )

    def test_nothing(self):
        self.assertEqual(snapshot.compare(self.before, self.lines_of(self.text)), ([], []))

    def test_a_comment_and_the_name_of_an_argument(self):
        self.assertEqual(
            self.changed(
                "ucxx_status_t ucxx_worker_arm(ucxx_worker_t *worker);",
                "/* More. */ ucxx_status_t ucxx_worker_arm(ucxx_worker_t *who);",
            ),
            ([], []),
        )

    def test_a_function_that_is_gone(self):
        self.breaks(
            "ucxx_status_t ucxx_worker_arm(ucxx_worker_t *worker);",
            "",
            "gone:    symbol ucxx_worker_arm",
            "gone:    function ucxx_worker_arm",
        )

    def test_another_argument(self):
        self.breaks(
            "uint16_t ucxx_listener_port(",
            "uint32_t ucxx_listener_port(",
            "is:      function ucxx_listener_port: uint32_t",
        )

    def test_a_new_function(self):
        self.adds(
            "ucxx_status_t ucxx_worker_arm(ucxx_worker_t *worker);",
            "ucxx_status_t ucxx_worker_arm(ucxx_worker_t *worker); ucxx_status_t ucxx_new(int32_t one);",
            "new:     function ucxx_new: ucxx_status_t (int32_t)",
        )

    def test_another_value(self):
        self.breaks(
            "UCXX_ERR_BUSY = -15", "UCXX_ERR_BUSY = -17", "is:      constant UCXX_ERR_BUSY = -17"
        )

    def test_a_new_constant(self):
        self.adds(
            "UCXX_LOG_TRACE = 5,",
            "UCXX_LOG_TRACE = 5, UCXX_LOG_ALL = 6,",
            "new:     constant UCXX_LOG_ALL = 6",
        )

    def test_a_member_at_the_end_of_a_struct_that_grows(self):
        self.adds(
            "  ucxx_endpoint_t *source;\n};",
            "  ucxx_endpoint_t *source;\n  uint64_t more;\n};",
            "new:     member ucxx_op_params.more: at 80",
        )

    def test_a_member_in_what_was_padding(self):
        self.breaks(
            "  uint32_t ucx_copies;\n};",
            "  uint32_t ucx_copies;\n  uint32_t more;\n};",
            "new:     member ucxx_version.more: at 52",
        )

    def test_a_member_in_between(self):
        self.breaks(
            "  int32_t memory_type;\n  /**\n   * Zero.\n   */\n  uint32_t reserved;",
            "  int32_t memory_type;\n  uint64_t more;\n  uint32_t reserved;",
            "member ucxx_op_params.more",
            "member ucxx_op_params.timeout_ns",
        )

    def test_a_member_of_a_struct_that_never_grows(self):
        self.breaks(
            "  uint32_t reserved[4];\n};", "  uint32_t reserved[6];\n};", "struct ucxx_completion"
        )

    def test_a_member_of_another_name(self):
        self.breaks(
            "  const char *key;", "  const char *value_;", "gone:    member ucxx_config_entry.key"
        )

    def test_a_new_struct(self):
        self.adds(
            "struct ucxx_block {",
            "struct ucxx_new { size_t struct_size; int32_t one; };\nstruct ucxx_block {",
            "new:     member ucxx_new.one: at 8",
        )

    def test_what_is_of_no_known_form(self):
        for text in ("#define UCXX_NEW 1", "union ucxx_new { int one; };", "extern int ucxx_new;"):
            with self.subTest(text), self.assertRaises(header.NotUnderstood):
                self.lines_of(
                    self.text.replace("struct ucxx_block {", text + "\nstruct ucxx_block {")
                )

    def test_what_has_been_released(self):
        self.assertFalse(snapshot.released(self.before, "## [Unreleased]: 0.1.0\n"))
        self.assertTrue(
            snapshot.released(self.before, "## [Unreleased]: 0.1.1\n\n## [0.1.0] - 2030-01-01\n")
        )
        self.assertFalse(snapshot.released(self.before, "## [0.11.0]\n## [10.1.0]\n"))


if __name__ == "__main__":
    PREFIX = sys.argv.pop(1)
    unittest.main()

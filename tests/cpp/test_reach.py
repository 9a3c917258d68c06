#!/usr/bin/env python3
"""ucxx_rs.hpp has all of the C header: its files call every function of the ABI snapshot, and name
every constant. names.cpp names all of its types.

    tests/cpp/test_reach.py [unittest's arguments]
"""

import re
import unittest
from pathlib import Path

ROOT = Path(__file__).parents[2]
ABI = (ROOT / "tests/abi/snapshot.txt").read_text()

# What C++ has no call for, and why.
NOT_CALLED = {
    "ucxx_last_error_message": "ucxx_error_text has it, with the name of the status",
    "ucxx_type_size": "sizeof(T)",
}
NOT_NAMED = {
    "UCXX_RS_VERSION_MAJOR": "a macro of the C header, which C++ has too",
    "UCXX_RS_VERSION_MINOR": "a macro of the C header, which C++ has too",
    "UCXX_RS_VERSION_PATCH": "a macro of the C header, which C++ has too",
    "UCXX_TYPE_UINT16": "the signed type and 1",
    "UCXX_TYPE_UINT32": "the signed type and 1",
}


def of_snapshot(kind):
    return re.findall(rf"^{kind} (ucxx_\w+)", ABI, re.MULTILINE | re.IGNORECASE)


def without_comments(text):
    return re.sub(r"//[^\n]*", "", text)


class Reach(unittest.TestCase):
    def setUp(self):
        files = (ROOT / "include/ucxx_rs").glob("*.hpp")
        self.headers = "".join(each.read_text() for each in files)
        self.text = without_comments(self.headers)
        self.words = set(re.findall(r"\w+", self.text))

    def test_every_function_is_called(self):
        # The macros and `detail::sized` do what *_init does.
        functions = [each for each in of_snapshot("symbol") if not each.endswith("_init")]
        self.assertGreater(len(functions), 200)
        self.assertEqual(self.missing(functions), sorted(NOT_CALLED))

    def test_every_constant_is_named(self):
        constants = of_snapshot("constant")
        self.assertGreater(len(constants), 100)
        self.assertEqual(self.missing(constants), sorted(NOT_NAMED))

    def test_statuses_map(self):
        # A status that is no enumerator could not be handled in a switch.
        for each in of_snapshot("constant"):
            if each.startswith("UCXX_ERR_"):
                name = each.removeprefix("UCXX_ERR_").lower()
                self.assertIn(f"{name} = {each},", self.text)

    def test_names_names_every_type(self):
        # Types begin in the first column, and those of `detail` are not for users.
        kinds = r"(?:template <.*>\s+)?(?:class|struct|enum class|using)"
        types = set(
            re.findall(rf"^{kinds} (?:\[\[nodiscard]] )?(\w+)(?= [:={{])", self.outside(), re.M)
        )
        self.assertGreater(len(types), 80)
        named = re.findall(r"\w+", without_comments((ROOT / "tests/cpp/names.cpp").read_text()))
        self.assertEqual(sorted(types - set(named)), ["asio_notifier", "asio_worker"])

    def test_results_are_named(self):
        # The reference shows no type for `auto`.
        users = re.sub(r"^private:.*?^};", "", self.outside(), flags=re.M | re.S)
        functions = re.findall(
            r"((?:^ *///.*\n)+)(?:^ *template.*\n)?.*\bauto (\w+)\(", users, re.M
        )
        self.assertGreater(len(functions), 40)
        self.assertEqual([name for comment, name in functions if "@return" not in comment], [])

    def outside(self):
        """What is not in `detail`."""
        details = re.compile(r"^namespace detail {.*?^} // namespace detail", re.M | re.S)
        return details.sub("", self.headers)

    def missing(self, names):
        return sorted(each for each in names if each not in self.words)


if __name__ == "__main__":
    unittest.main()

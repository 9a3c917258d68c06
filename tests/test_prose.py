#!/usr/bin/env python3
"""scripts/prose.py reports each kind of fault at its line, and accepts correct text."""

import re
import sys
import unittest
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "scripts"))
import prose

PAGE = "docs/page.md"
WORDS_35 = " ".join("a" * 35)
HALF = " ".join("a" * 18)


def found(name, text):
    """Line and kind of each fault."""
    return [(fault.line, fault.kind) for fault in prose.faults(name, text)]


class Columns(unittest.TestCase):
    def test_markdown(self):
        self.assertEqual(found("a/b.md", "é" * 100), [])
        self.assertEqual(found("a/b.md", "\n" + "x" * 101), [(2, "columns")])
        self.assertEqual(found("a/b.md", "```\n" + "x" * 101 + "\n```"), [(2, "columns")])
        self.assertEqual(found("a/b.md", "| " + "x" * 101 + " |"), [(1, "columns")])

    def test_comments_and_not_code(self):
        for name, begin in (
            ("src/a.rs", "//! "),
            ("src/a.rs", "    // "),
            ("a.c", "/* "),
            ("a.h", " * "),
            ("a.py", "# "),
            ("scripts/a.sh", "  # "),
            ("CMakeLists.txt", "# "),
            ("Makefile", "# "),
            ("a.toml", "# "),
            ("man/a.1.in", '.\\" '),
            ("tools/completions/a", "# "),
        ):
            with self.subTest(name):
                self.assertEqual(found(name, begin + "x" * (100 - len(begin))), [])
                self.assertEqual(found(name, begin + "x" * (101 - len(begin))), [(1, "columns")])
                self.assertEqual(found(name, "code" + "x" * 200), [])
        self.assertEqual(found("a.c", "#define " + "x" * 200), [])
        self.assertEqual(found("src/a.rs", "#[cfg(" + "x" * 200), [])


class Sentences(unittest.TestCase):
    def test_the_words_of_a_sentence_are_counted(self):
        self.assertEqual(found(PAGE, WORDS_35 + "."), [])
        self.assertEqual(found(PAGE, "Title.\n\n" + WORDS_35 + " more."), [(3, "sentence")])
        self.assertEqual(found(PAGE, f"Short.\n{WORDS_35}\nmore."), [(2, "sentence")])
        self.assertEqual(found(PAGE, f"{WORDS_35}; more."), [(1, "sentence")])

    def test_what_ends_a_sentence(self):
        for end in (
            ". ",
            "! ",
            "? ",
            ": ",
            ".\n",
            ".** ",
            "\n\n",
            "\n- ",
            "\n1. ",
            "\n# ",
            "\n```\n",
        ):
            with self.subTest(end):
                self.assertEqual(found(PAGE, WORDS_35 + end + "more"), [])
        self.assertEqual(found(PAGE, f"| {WORDS_35} | more |"), [])
        self.assertEqual(found(PAGE, f"| cell | {WORDS_35} more |"), [(1, "sentence")])

    def test_where_items_and_continued_items_are(self):
        self.assertEqual(found(PAGE, f"- one\n- {WORDS_35}\n  more"), [(2, "sentence")])

    def test_code_and_links_are_one_word(self):
        self.assertEqual(found(PAGE, f"```\n{WORDS_35}\n{WORDS_35}\n```\n"), [])
        self.assertEqual(found(PAGE, f"{WORDS_35[:-1]}[a](b.md#c-d)"), [])
        self.assertEqual(found(PAGE, f"`{'a ' * 40}` is code"), [])

    def test_only_pages_of_users(self):
        for name in ("docs/a.md", "README.md", "CHANGELOG.md", "CONTRIBUTING.md"):
            self.assertEqual(found(name, f"{WORDS_35}\nmore"), [(1, "sentence")])
        self.assertEqual(found("tests/README.md", f"{WORDS_35}\nmore"), [])

    def test_the_header(self):
        def comment(text):
            return (
                "/*\n" + "".join(f" * {line}\n" for line in text.split("\n")) + " */\nint f(int);\n"
            )

        self.assertEqual(found(prose.HEADER, comment(f"{WORDS_35[:39]}\n{WORDS_35[40:]}")), [])
        long = comment(f"Short.\n{WORDS_35[:39]}\n{WORDS_35[40:]}\nmore")
        self.assertEqual(found(prose.HEADER, long), [(3, "sentence")])
        for between in ("\n\n", "\n - ", "\n@param a ", "\n@return ", ".\n"):
            with self.subTest(between):
                text = HALF + between + HALF
                self.assertEqual(found(prose.HEADER, comment(text)), [])
        joined = f"{HALF}\n{HALF}"
        self.assertEqual(found(prose.HEADER, comment(joined)), [(2, "sentence")])
        lines = "".join(f"// {HALF}\n" for _ in range(2))
        self.assertEqual(found(prose.HEADER, lines), [(1, "sentence")])
        # Code, and comments of two declarations.
        self.assertEqual(found(prose.HEADER, "int a;\n" * 40), [])
        apart = f"int a; /* {HALF} */\n" * 2
        self.assertEqual(found(prose.HEADER, apart), [])
        # A table: a list of names is no sentence.
        table = "\n".join(f"Name{number}     one two three four" for number in range(12))
        self.assertEqual(found(prose.HEADER, comment(table)), [])


class Words(unittest.TestCase):
    EXAMPLES = (
        "Freed by whoever comes last.",
        "Whomever it asks.",
        "It was hitherto free.",
        "The cause thereof.",
        "It waits for ever.",
        "It waits for\never.",
        "It goes on as ever.",
        "It is used by nobody else.",
        "The call comes to nothing.",
        "A peer hears of it.",
        "Data on its way.",
        "A worker that has gone.",
        "It lets go of the key.",
        "Used in the place of it.",
        "The rule stands in the page.",
        "First. Who asks gets it.",
    )

    def test_each_word_is_refused_where_it_stands(self):
        self.assertTrue(
            all(any(re.search(word, text, re.I) for text in self.EXAMPLES) for word in prose.WORDS)
        )
        for text in self.EXAMPLES:
            with self.subTest(text):
                self.assertEqual(found("tests/a.md", "Before.\n\n" + text), [(3, "word")])
                head = f"/*\n * Before.\n *\n * {text}\n */\n".replace("\never", "\n * ever")
                self.assertEqual(found(prose.HEADER, head), [(4, "word")])

    def test_code_questions_and_sources_are_left_alone(self):
        self.assertEqual(found("a.md", "`for ever` and\n\n```\nfor ever\n```\n"), [])
        self.assertEqual(found("a.md", "## Who may call it?\n\nThose who ask."), [])
        self.assertEqual(found("a.md", "```sh\nfor ever\n```\nfor ever\n"), [(4, "word")])
        self.assertEqual(found("src/a.rs", "// for ever"), [])


class Exceptions(unittest.TestCase):
    def test_an_exception_takes_its_kind_file_and_place(self):
        fault = prose.Fault(PAGE, 1, "word", "what", "it waits for ever")
        for line, taken in (
            ("word | docs/page.md | for ever | a title", True),
            ("word | docs/* | * | a title", True),
            ("columns | docs/page.md | for ever | a title", False),
            ("word | docs/other.md | for ever | a title", False),
            ("word | docs/page.md | whoever | a title", False),
        ):
            with self.subTest(line):
                exceptions = prose.Exceptions("# comment\n\n" + line)
                self.assertEqual(exceptions.allow(fault), taken)
                self.assertEqual(exceptions.unused(), [] if taken else [3])

    def test_an_exception_without_a_reason_is_refused(self):
        for line in ("word | a.md | for ever", "word | a.md | for ever | ", "noise | a.md | b | c"):
            with self.subTest(line), self.assertRaises(SystemExit):
                prose.Exceptions(line)


if __name__ == "__main__":
    unittest.main()

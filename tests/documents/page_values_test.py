#!/usr/bin/env python3
"""tools/page_values.py notices each kind of difference between a page and its tables."""
import contextlib
import io
import pathlib
import sys
import tempfile
import unittest
from unittest import mock

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
sys.path.insert(0, str(ROOT / "tools"))
sys.dont_write_bytecode = True
import page_values  # noqa: E402

TABLES = {
    "verdicts.csv": "claim_id,verdict\nG2_good,refuted\n",
    "claims.csv": "claim_id,expected,effect,ci_lo,ci_hi,verdict\n"
                  "G2_good,control: em at least 0.9,0.05,0.04,0.06,reproduced\n"
                  "G2_good,nll at most 0.52,-0.0651,-0.4250,0.2949,inconclusive\n",
    "checks.csv": "number,verdict\n4,FAIL\n5,pass\n9,FAIL\n",
    "noise.csv": "encoding,variant,nll,nll_half_width,spread,spread_low,spread_high\n"
                 'rope,"trained, end",1.25,0.034,0.1056,0.0780,0.1635\n'
                 "none,plain,1.5,0.1,0.028,0.021,0.044\n",
}
RIGHT = """# Study

The verdict is **<!--=verdict G2-->refuted<!--/-->**, and of a test <!--=verdict G2.1-->inconclusive<!--/-->.
RoPE loses <!--=claim G2.1 0.52-x-->0.585 [0.225, 0.945]<!--/--> nats, its control <!--=claim G2.control1-->0.05<!--/-->.
Checks <!--=failed checks-->4, 9<!--/--> fail. In percent: <!--=noise nll encoding=none 100*x-->150 ± 10<!--/-->.

<!--=table noise nll spread-->

| | loss | spread |
|---|---|---|
| `rope`<!--variant=trained+end--> | 1.25 ± 0.03 (1.3) | 0.106 [0.078, 0.164] |
| `none` | 1.50 | not run |
| another | 7 | 8 |
"""


def run(*arguments):
    """Exit code and output of the tool."""
    page_values.read.cache_clear()
    output = io.StringIO()
    with mock.patch.object(sys, "argv", ["page_values.py", *map(str, arguments)]), contextlib.redirect_stdout(output):
        return page_values.main(), output.getvalue()


class PageValues(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.addCleanup(self.folder.cleanup)
        self.root = pathlib.Path(self.folder.name)
        self.tables = self.root / "tables"
        (self.tables / "study").mkdir(parents=True)
        for name, text in TABLES.items():
            (self.tables / "study" / name).write_text(text)
        self.page = self.root / "study.md"

    def call(self, text, *arguments):
        self.page.write_text(text)
        return run("--tables", self.tables, self.page, *arguments)

    def test_right_numbers_pass(self):
        self.assertEqual(self.call(RIGHT), (0, "9 values, 0 of them wrong\n"))

    def test_each_kind_of_difference_is_found_and_replaced(self):
        for right, wrong in [("refuted<", "reproduced<"), ("[0.225, 0.945]", "[0.225, 0.954]"), ("0.585", "0.584"),
                             (">4, 9<", ">4<"), ("150 ± 10", "150 ± 11"), ("± 0.03 (", "± 0.04 ("),
                             ("0.106 [", "0.107 ["), (">0.05<", ">0.06<"), ("| 1.50 |", "| 1.51 |")]:
            with self.subTest(wrong):
                text = RIGHT.replace(right, wrong)
                self.assertNotEqual(text, RIGHT)
                code, output = self.call(text)
                self.assertEqual(code, 1)
                line = 1 + text[:next(i for i, (a, b) in enumerate(zip(text, RIGHT)) if a != b)].count("\n")
                self.assertIn(f"study.md:{line}: the page has", output)
                self.call(text, "--write")
                self.assertEqual(self.page.read_text(), RIGHT)

    def test_marks_that_lead_nowhere_are_named(self):
        for text, reason in [("a <!--=claim G9.1-->1<!--/-->", "0 claims begin with G9"),
                             ("a <!--=absent nll encoding=rope-->1<!--/-->", "there is no table absent.csv in study"),
                             ("a <!--=noise loss encoding=rope-->1<!--/-->", "noise has no column loss"),
                             ("a <!--=noise nll encoding=alibi-->1<!--/-->", "0 rows of noise have encoding=alibi"),
                             ("a <!--=other:claim G2.1-->1<!--/-->", "no study is called other"),
                             ("a <!--=noise nll encoding=rope-->1 and 2<!--/-->", "is no number"),
                             ("<!--=noise nll encoding=rope-->1.25<!--/-->", "a marked value begins the line")]:
            with self.subTest(text):
                code, output = self.call(text + "\n")
                self.assertEqual(code, 1)
                self.assertIn(reason, output)

    def test_a_page_without_a_mark_is_no_success(self):
        with self.assertRaisesRegex(SystemExit, "no page has a mark"):
            self.call("a 1\n")


if __name__ == "__main__":
    unittest.main()

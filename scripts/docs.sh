#!/usr/bin/env bash
# Builds the site into target/docs/html: the pages of docs/, and a reference from the header. These
# are errors: a warning of Doxygen or Sphinx, a symbol that is on no page, and a broken link.
#
#   scripts/docs.sh
set -euo pipefail
source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"
cd "$root"

header=$root/include/ucxx_rs.h
out=$target_dir/docs
pages=$out/pages
mapfile -t packages < <(grep -v '^#' site/requirements.txt)
python=$(scripts/venv.sh --name docs "${packages[@]}")
export PYTHONDONTWRITEBYTECODE=1 UCXX_RS_HEADER=$header UCXX_RS_XML=$out/xml UCXX_RS_XML_CPP=$out/cpp/xml UCXX_RS_PLOTS=$out/plots
UCXX_RS_VERSION=$(package_field version)
export UCXX_RS_VERSION
rm -rf "$pages" "$out/xml" "$out/cpp" "$out/html"
mkdir -p "$pages" "$out/cpp"

# The same layout as in the repository, so that links between pages and to files work in both.
cp -r docs c_examples "$pages"
find tests benches \( -name '*.md' -o -path tests/abi/snapshot.txt \) -exec cp --parents {} "$pages" \;
cp site/index.md README.md CHANGELOG.md CONTRIBUTING.md LICENSE "$pages"
"$python" site/reference.py "$header" "$pages/reference"
"$python" site/plots.py docs/performance/report.json "$UCXX_RS_PLOTS"

# Doxygen reads the header through the same reader as the pages, so that both agree.
{
  cat site/Doxyfile
  printf '%s\n' "INPUT = \"$header\"" "OUTPUT_DIRECTORY = \"$out\"" "INPUT_FILTER = \"$python $root/site/header.py\""
} | doxygen -
# The namespace that tells the versions of C++ apart is no part of the names that users write.
{
  cat site/Doxyfile
  printf '%s\n' "INPUT = \"$root/include/ucxx_rs\"" 'FILE_PATTERNS = *.hpp' "OUTPUT_DIRECTORY = \"$out/cpp\"" \
    'INPUT_FILTER = "sed /namespace.UCXX_RS_MODE/d"' 'EXCLUDE_SYMBOLS = ucxx_rs::detail ucxx_rs::detail::* std::*' \
    'OPTIMIZE_OUTPUT_FOR_C = NO' 'EXTRACT_ALL = NO' 'MARKDOWN_SUPPORT = YES' 'MACRO_EXPANSION = YES' 'EXPAND_ONLY_PREDEF = YES' \
    'PREDEFINED = UCXX_RS_COROUTINES=1 UCXX_RS_EXCEPTIONS=1 __cpp_lib_span=1 __cpp_lib_expected=1'
} | doxygen -
# A comment after something that Doxygen does not list would be that of the next thing.
! grep -rn '<para>&lt; ' "$out/cpp/xml" || die "a comment after a declaration belongs to another one"
cp site/{cpp,python}.md "$pages/reference"
for file in include/ucxx_rs/*.hpp; do
  grep -q "{doxygenfile} $(basename "$file")$" site/cpp.md || die "site/cpp.md lacks $(basename "$file")"
done
"$python" -m sphinx -c site -b html -d "$out/doctrees" -W --keep-going -q "$pages" "$out/html"
"$python" site/check.py "$header" "$out/html"
say "docs: $out/html/index.html"

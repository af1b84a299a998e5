# What the scripts in test/ share, to be sourced by bash from the repository's root: messages, the list of the files that make
# the working tree, and the readers of the runners' closing lines. Sets PASSED and FAILED; runs nothing.

say() { printf '%s\n' "$*"; }
die() { printf 'hawser: %s\n' "$*" >&2; exit 1; }

# The files of the working tree as they are now, NUL-separated: tracked and new ones, without ignored and deleted ones.
tree() {
    git ls-files -z --cached --others --exclude-standard | while IFS= read -r -d '' file; do
        if [ -e "$file" ] || [ -L "$file" ]; then printf '%s\0' "$file"; fi
    done
}

# sum FILE REGEX: the sum of the first group over all lines that match (sed -E, colours removed).
sum() {
    sed -E 's/\x1b\[[0-9;]*m//g' "$1" | sed -nE "s/^.*$2.*$/\\1/p" | awk '{ n += $1 } END { print n + 0 }'
}

# rebar3 ct: `All 12 tests passed.`, or `Failed 1 tests. Skipped 3 (1, 2) tests. Passed 8 tests.` with what applies. The second
# number in the parentheses counts the cases that could not run because something before them failed: failures.
count_ct() {
    PASSED=$(($(sum "$1" 'All ([0-9]+) tests passed') + $(sum "$1" 'Passed ([0-9]+) tests')))
    FAILED=$(($(sum "$1" 'Failed ([0-9]+) tests') + $(sum "$1" 'Skipped [0-9]+ \([0-9]+, ([0-9]+)\) tests')))
}

# cargo nextest: `Summary [..] 12 tests run: 11 passed (1 slow), 1 failed, 2 skipped`
count_nextest() {
    PASSED=$(sum "$1" 'tests? run: ([0-9]+) passed')
    FAILED=$(($(sum "$1" 'tests? run: .* ([0-9]+) failed') + $(sum "$1" 'tests? run: .* ([0-9]+) timed out')))
}

# cargo test: `test result: ok. 12 passed; 0 failed; ...`, once per binary.
count_cargo() {
    PASSED=$(sum "$1" 'test result: .* ([0-9]+) passed;')
    FAILED=$(sum "$1" 'test result: .* ([0-9]+) failed;')
}

# hawser's own scripts: the line `12 passed, 0 failed`.
count_plain() {
    PASSED=$(sum "$1" '^([0-9]+) passed, [0-9]+ failed$')
    FAILED=$(sum "$1" '^[0-9]+ passed, ([0-9]+) failed$')
}

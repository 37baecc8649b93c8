#!/usr/bin/python3
"""The rules of the tree that need no compiler. One function a rule; `make lint` runs them all.

usage: scripts/check_source.py

Prints `file:line: what is wrong` for each finding, then `N passed, N failed` counting rules.
"""
import pathlib
import re
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent

# -- rule 1: who may include whom (ARCHITECTURE.md) ------------------------------------------------
# A folder means all its headers, a path just that one. Every folder may include its own.
PROTOCOL = {"base", "model", "net", "engine/engine.h", "engine/topology.h", "engine/view.h",
            "server/alerts.h", "server/barrier.h", "server/server.h"}
MAY_INCLUDE = {
    "base": set(),
    "model": {"base"},
    "log": {"base", "model"},
    "engine": {"base", "model", "log/log.h", "log/record.h"},
    "net": {"base"},
    "server": {"base", "model", "log", "engine", "net", "http", "amqp", "cli"},
    "http": PROTOCOL,
    "amqp": PROTOCOL,
    "sqs": PROTOCOL,
    "cli": {"base", "model"},
}

# Headers of other projects, by their beginning, and the files of src/ that may know them.
FOREIGN = {
    "uv.h": "net/",
    "openssl/hmac.h": "server/alerts_sign.c",
    "openssl/": "net/tls.c",
    "llhttp.h": "http/",
    "xxhash.h": "base/hash.c",
    "curl/": ("cli/", "server/alerts_address.c", "server/alerts_sender.c"),
    "curses.h": "cli/cmd_top.c",
    "pcre2.h": "model/expression.c",
    "yaml.h": "cli/yaml.c",
    "amqp.h": "amqp/",
    "amqp_framing.h": "amqp/",
}
STANDARD = set("""
    assert.h complex.h ctype.h errno.h fenv.h float.h inttypes.h iso646.h limits.h locale.h math.h
    setjmp.h signal.h stdalign.h stdarg.h stdatomic.h stdbool.h stddef.h stdint.h stdio.h stdlib.h
    stdnoreturn.h string.h tgmath.h threads.h time.h uchar.h wchar.h wctype.h
    dirent.h endian.h fcntl.h fnmatch.h getopt.h glob.h grp.h libgen.h netdb.h paths.h poll.h
    pthread.h pwd.h sched.h semaphore.h spawn.h strings.h sysexits.h syslog.h termios.h unistd.h
""".split())
STANDARD_FOLDERS = ("arpa/", "linux/", "net/", "netinet/", "sys/")

# -- rule 3 ------------------------------------------------------------------------------------------
FILE_LINES_MAX = 700
FUNCTION_LINES_MAX = 70

# -- rule 4: no bound on what they write, hidden state, or no way to see an error ------------------------
BANNED = ("strcpy strcat sprintf vsprintf strtok gmtime localtime atoi atol rand alloca").split()

# -- rule 7 ------------------------------------------------------------------------------------------
MARKERS = re.compile(r"\b(TO" r"DO|FIX" r"ME|X" r"XX)\b")  # in pieces: this file is checked too
MARKERS_NAMED_IN = {"CONTRIBUTING.md"}  # it forbids them


def tree(*patterns):
    """Files under version control and new ones, without those that are ignored or gone."""
    listed = subprocess.run(
        ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard", "--", *patterns],
        cwd=ROOT, check=True, capture_output=True, text=True).stdout
    return sorted(name for name in set(listed.split("\0")) if name and (ROOT / name).is_file())


def text_of(name):
    return (ROOT / name).read_text(encoding="utf-8", errors="replace")


COMMENT_OR_TEXT = re.compile(r'/\*.*?\*/|//[^\n]*|"(?:\\.|[^"\\\n])*"|\'(?:\\.|[^\'\\\n])*\'', re.S)


def code_of(name):
    """The file with comments and string literals blanked, line numbers kept."""
    return COMMENT_OR_TEXT.sub(lambda m: re.sub(r"[^\n]", " ", m.group()), text_of(name))


def includes_follow_the_layers():
    for name in tree("src/*.[ch]"):
        path = name.removeprefix("src/")
        folder = path.split("/")[0]
        for number, line in enumerate(text_of(name).splitlines(), 1):
            m = re.match(r'\s*#\s*include\s+([<"])([^>"]+)[>"]', line)
            if not m:
                continue
            kind, header = m.groups()
            if kind == '"':
                allowed = MAY_INCLUDE.get(folder, set()) | {folder}
                if not ({header, header.split("/")[0]} & allowed and (ROOT / "src" / header).is_file()):
                    yield f"{name}:{number}: src/{folder}/ may not include \"{header}\""
                continue
            where = next((w for start, w in FOREIGN.items() if header.startswith(start)), None)
            if where is not None:
                if not path.startswith(where):
                    yield f"{name}:{number}: <{header}> is not for this file, but for {where} in src/"
            elif header not in STANDARD and not header.startswith(STANDARD_FOLDERS):
                yield f"{name}:{number}: <{header}> is no header this project uses"


def includes_stay_in_the_tree_or_its_folder():
    """Outside src/, a quoted header is one of src/ or one beside the file."""
    for name in tree("tests/*.[ch]", "bench/*.[ch]"):
        for number, line in enumerate(text_of(name).splitlines(), 1):
            m = re.match(r'\s*#\s*include\s+"([^"]+)"', line)
            if m and not any((base / m.group(1)).is_file()
                             for base in (ROOT / "src", ROOT / "tests", (ROOT / name).parent)):
                yield f"{name}:{number}: there is no \"{m.group(1)}\""


def every_source_is_built():
    for folder in MAY_INCLUDE:
        build = ROOT / "src" / folder / "meson.build"
        listed = re.findall(r"'([^']+\.c)'", build.read_text()) if build.is_file() else []
        for name in tree(f"src/{folder}/*.c"):
            if name.removeprefix(f"src/{folder}/") not in listed and name != "src/server/main.c":
                yield f"{name}:1: not in src/{folder}/meson.build"


def files_and_functions_are_short():
    """Relies on the format: a function ends with a brace in the first column, and what stands in the first column before it is its
    head, a label or a directive."""
    for name in tree("*.[ch]"):
        lines = code_of(name).splitlines()
        if len(lines) > FILE_LINES_MAX:
            yield f"{name}:1: {len(lines)} lines, more than {FILE_LINES_MAX}"
        head = 0
        for number, line in enumerate(lines, 1):
            if line.rstrip() == "}" and "(" in lines[head - 1]:
                if number - head + 1 > FUNCTION_LINES_MAX:
                    yield (f"{name}:{head}: a function of {number - head + 1} lines, "
                           f"more than {FUNCTION_LINES_MAX}")
            elif re.match(r"[A-Za-z_]", line) and not re.match(r"\w+:", line):
                head = number


def no_banned_function():
    pattern = re.compile(r"\b(" + "|".join(BANNED) + r")\s*\(")
    for name in tree("*.[ch]"):
        for number, line in enumerate(code_of(name).splitlines(), 1):
            for m in pattern.finditer(line):
                yield f"{name}:{number}: {m.group(1)} is banned (CONTRIBUTING.md)"


def nothing_is_left_to_do():
    for name in tree():
        if name in MARKERS_NAMED_IN:
            continue
        for number, line in enumerate(text_of(name).splitlines(), 1):
            m = MARKERS.search(line)
            if m:
                yield f"{name}:{number}: {m.group()}"


RULES = [
    includes_follow_the_layers,
    includes_stay_in_the_tree_or_its_folder,
    every_source_is_built,
    files_and_functions_are_short,
    no_banned_function,
    nothing_is_left_to_do,
]


def main():
    if not tree("src/*.[ch]"):
        sys.exit("check_source.py: no sources found")
    failed = 0
    for rule in RULES:
        findings = list(rule())
        failed += bool(findings)
        for finding in findings:
            print(finding)
    print(f"{len(RULES) - failed} passed, {failed} failed")
    return failed > 0


if __name__ == "__main__":
    sys.exit(main())

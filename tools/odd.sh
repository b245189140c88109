#!/usr/bin/env bash
# Run `make test` in a clone of this checkout's last commit, under conditions that people don't plan for, all at once: stdin
# closed, SIGINT ignored, no terminal, output to a file, LC_ALL=C, HOME unset, umask 077, and a checkout and a TMPDIR whose
# paths have spaces and Chinese characters.
#
#     tools/odd.sh [OPTIONS]      OPTIONS go to pytest, e.g. tools/odd.sh tests/train -x
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
room=$(mktemp -d)
trap 'rm -rf "$room"' EXIT
checkout="$room/检出 的 目录" log="$room/log"
mkdir "$room/临时 文件"
git clone --quiet . "$checkout"

# A new session has no terminal; SIGINT is ignored as in the background jobs of a shell without job control.
status=0
(
	cd "$checkout"
	umask 077
	trap '' INT
	exec setsid --wait env -u HOME -u XDG_CACHE_HOME -u XDG_CONFIG_HOME LC_ALL=C TMPDIR="$room/临时 文件" make test OPTIONS="$*"
) <&- >"$log" 2>&1 || status=$?
if [ $status = 0 ]; then tail -n 30 "$log"; else cat "$log"; fi
exit $status

#!/usr/bin/env bash
# Run a command as on a machine where nothing is installed yet but Python and make: no fonts, no browser, no compiler, an
# empty HOME, no locale. Nothing outside changes: the room is a mount namespace, gone when the command ends.
#
#     tools/bare.sh COMMAND…              in the room
#     tools/bare.sh --offline COMMAND…    the same, without any network
#     tools/bare.sh                       what the README promises: make test; then, without network, make run
#
# Linux only. It needs root, or a system that lets everyone have namespaces (unshare -r).
set -euo pipefail
script=$(readlink -f "${BASH_SOURCE[0]}")
programs="chromium chromium-browser google-chrome google-chrome-stable microsoft-edge firefox firefox-esr cc c++ gcc g++ clang clang++"

if [ "${1-}" = --inside ]; then # of the namespace
	shift
	for fonts in /usr/share/fonts /usr/local/share/fonts /usr/X11R6/lib/X11/fonts /usr/lib/openoffice/share/fonts; do
		[ ! -d "$fonts" ] || mount -t tmpfs none "$fonts"
	done
	# Programs are removed from a layer over their folder that only this namespace sees.
	layers=$(mktemp -d)
	mount -t tmpfs none "$layers"
	declare -A laid
	IFS=: read -ra folders <<<"$PATH"
	for folder in "${folders[@]}"; do
		for file in $(printf "$folder/%s " $programs) "$folder"/{gcc,g++,clang,clang++}-[0-9]*; do
			[ -x "$file" ] || continue
			program=$(readlink -f "$file")
			place=$(dirname "$program")
			if [ -z "${laid[$place]-}" ]; then
				layer=$(mktemp -d -p "$layers")
				mkdir "$layer/upper" "$layer/work"
				mount -t overlay overlay -o "lowerdir=$place,upperdir=$layer/upper,workdir=$layer/work" "$place" || exit 2
				laid[$place]=yes
			fi
			rm "$program"
		done
	done
	exec "$@"
fi

spaces=(--mount)
if [ "${1-}" = --offline ]; then
	shift
	spaces+=(--net)
fi
[ "$(id -u)" = 0 ] || spaces+=(--map-root-user)
if ! unshare "${spaces[@]}" true 2>/dev/null; then
	echo "tools/bare.sh hides parts of the system in a namespace of its own, which needs Linux and root: sudo tools/bare.sh" >&2
	exit 2
fi

if [ $# = 0 ]; then
	cd "$(dirname "$script")/.."
	"$script" make test
	rm -f out/attention.html out/attention.png
	"$script" --offline make run
	ls -l out/attention.html out/attention.png
	exit
fi

room=$(mktemp -d)
trap 'rm -rf "$room"' EXIT
mkdir "$room/home" "$room/tmp"
# How the network is reached is no part of the machine's furniture, and pip may be told that in HOME.
kept=(PATH="$PATH" TERM="${TERM-dumb}" HOME="$room/home" TMPDIR="$room/tmp")
while IFS= read -r name; do
	kept+=("$name=${!name}")
done < <(compgen -e | grep -E '^(CI|PIP_.*|SSL_CERT_.*|REQUESTS_CA_BUNDLE)$|_(proxy|PROXY)$' || true)
for file in ~/.pip/pip.conf "${XDG_CONFIG_HOME-$HOME/.config}/pip/pip.conf"; do
	[ ! -f "$file" ] || [ -n "${PIP_CONFIG_FILE-}" ] || kept+=(PIP_CONFIG_FILE="$file")
done
env -i "${kept[@]}" unshare "${spaces[@]}" bash "$script" --inside "$@"

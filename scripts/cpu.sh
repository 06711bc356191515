# To be read by `.`: what a shell's `times` says in seconds.

# cpu_seconds FILE: the seconds of processors in it, of the shell and of all that it has waited for.
cpu_seconds() {
    tr 's ' '\n\n' <"$1" | awk -F m 'NF == 2 { sum += 60 * $1 + $2 } END { printf "%d\n", sum + 0.5 }'
}

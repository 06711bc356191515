# To be read by `.`, in the root of the tree. Sets HELENUS_SEED_EXTRA, unless it is set: the seed that random tests begin with
# beside their fixed ones. It comes from the commit, so that each commit looks at other points, and one commit at the same
# ones each time. Without a repository it is 2.
if [ -z "${HELENUS_SEED_EXTRA:-}" ]; then
    HELENUS_SEED_EXTRA=$(git rev-parse --verify --quiet --short=7 HEAD 2>/dev/null | cut -c 1-7)
    HELENUS_SEED_EXTRA=$((0x${HELENUS_SEED_EXTRA:-2}))
fi
export HELENUS_SEED_EXTRA
echo "HELENUS_SEED_EXTRA=$HELENUS_SEED_EXTRA"

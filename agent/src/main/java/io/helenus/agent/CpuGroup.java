package io.helenus.agent;

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.List;

/**
 * The limit that a control group (version 1 or 2) sets on this process's CPU time, and what the group has
 * used. Where several of the groups above have a limit, the tightest counts.
 */
final class CpuGroup
{
    /** Processors that the group may use. */
    final double cores;
    /** CPU time used by the group, in nanoseconds; -1 if it is not counted. */
    final long usedNanos;
    /** Periods that have ended, and those in which the group was stopped because its time was used up. */
    final long periods;
    final long throttled;

    private CpuGroup(double cores, long usedNanos, long periods, long throttled)
    {
        this.cores = cores;
        this.usedNanos = usedNanos;
        this.periods = periods;
        this.throttled = throttled;
    }

    /** Null if there is no limit. {@code proc}: where the process finds itself, {@code /proc/self}. */
    static CpuGroup read(Path proc)
    {
        try
        {
            List<String> mounts = Files.readAllLines(proc.resolve("mountinfo"));
            for (String line : Files.readAllLines(proc.resolve("cgroup")))
            {
                // number:controllers:path; version 2 has neither number nor controllers.
                String[] parts = line.split(":", 3);
                if (parts.length != 3)
                    continue;
                boolean second = parts[0].equals("0") && parts[1].isEmpty();
                if (!second && !List.of(parts[1].split(",")).contains("cpu"))
                    continue;
                Path[] place = place(mounts, second, parts[2]);
                CpuGroup found = place == null ? null : tightest(place[0], place[1], second);
                if (found != null)
                    return found;
            }
        }
        catch (IOException | RuntimeException unreadable)
        {
            // As without a limit.
        }
        return null;
    }

    /** Where the hierarchy is mounted, and the group's folder in it. */
    private static Path[] place(List<String> mounts, boolean second, String group)
    {
        for (String line : mounts)
        {
            // id parent device root mountpoint options … - type source options
            String[] sides = line.split(" - ", 2);
            String[] left = sides[0].split(" ");
            String[] right = sides.length == 2 ? sides[1].split(" ") : new String[0];
            if (left.length < 5 || right.length < 3 || !right[0].equals(second ? "cgroup2" : "cgroup"))
                continue;
            if (!second && !List.of(right[2].split(",")).contains("cpu"))
                continue;
            Path mount = Path.of(left[4]);
            String root = left[3].equals("/") ? "" : left[3];
            // In a container the path may be that of the host, of which only a part is mounted.
            boolean within = group.equals(root) || group.startsWith(root + "/");
            String below = within ? group.substring(root.length()) : "";
            Path folder = mount.resolve(below.startsWith("/") ? below.substring(1) : below).normalize();
            return new Path[] { mount, folder.startsWith(mount) ? folder : mount };
        }
        return null;
    }

    private static CpuGroup tightest(Path mount, Path folder, boolean second)
    {
        CpuGroup tightest = null;
        for (Path at = folder; at != null && at.startsWith(mount); at = at.getParent())
        {
            CpuGroup group = second ? second(at) : first(at);
            if (group != null && (tightest == null || group.cores < tightest.cores))
                tightest = group;
        }
        return tightest;
    }

    private static CpuGroup second(Path folder)
    {
        String[] limit = words(folder.resolve("cpu.max"));
        if (limit.length < 2 || limit[0].equals("max"))
            return null;
        List<String> stat = lines(folder.resolve("cpu.stat"));
        long used = value(stat, "usage_usec");
        return new CpuGroup(Double.parseDouble(limit[0]) / Double.parseDouble(limit[1]),
                            used < 0 ? -1 : used * 1_000,
                            value(stat, "nr_periods"),
                            value(stat, "nr_throttled"));
    }

    private static CpuGroup first(Path folder)
    {
        String[] quota = words(folder.resolve("cpu.cfs_quota_us"));
        String[] period = words(folder.resolve("cpu.cfs_period_us"));
        if (quota.length < 1 || period.length < 1 || quota[0].startsWith("-"))
            return null;
        List<String> stat = lines(folder.resolve("cpu.stat"));
        // Only where both controllers are mounted together, as they usually are.
        String[] used = words(folder.resolve("cpuacct.usage"));
        return new CpuGroup(Double.parseDouble(quota[0]) / Double.parseDouble(period[0]),
                            used.length < 1 ? -1 : Long.parseLong(used[0]),
                            value(stat, "nr_periods"),
                            value(stat, "nr_throttled"));
    }

    private static List<String> lines(Path file)
    {
        try
        {
            return Files.readAllLines(file);
        }
        catch (IOException absent)
        {
            return List.of();
        }
    }

    private static String[] words(Path file)
    {
        List<String> lines = lines(file);
        return lines.isEmpty() ? new String[0] : lines.get(0).trim().split(" ");
    }

    private static long value(List<String> lines, String name)
    {
        for (String line : lines)
            if (line.startsWith(name + " "))
                return Long.parseLong(line.substring(name.length() + 1).trim());
        return -1;
    }
}

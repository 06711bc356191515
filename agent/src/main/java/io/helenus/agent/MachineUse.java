package io.helenus.agent;

import java.io.BufferedReader;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.HashSet;
import java.util.List;
import java.util.Set;

/** What Linux counts of the machine: its processors and the devices of some folders. Elsewhere nothing is known. */
final class MachineUse
{
    /** Time of all processors, in the kernel's ticks. */
    static final class Processors
    {
        final long busy;
        final long all;

        Processors(long busy, long all)
        {
            this.busy = busy;
            this.all = all;
        }
    }

    /** A device's time with something to do, and the same times the number of its requests, in milliseconds. */
    static final class Device
    {
        final String name;
        final long busyMs;
        final long queuedMs;

        Device(String name, long busyMs, long queuedMs)
        {
            this.name = name;
            this.busyMs = busyMs;
            this.queuedMs = queuedMs;
        }
    }

    private MachineUse()
    {
    }

    /** Null where it is not known. {@code proc}: {@code /proc}. */
    static Processors processors(Path proc)
    {
        try (BufferedReader stat = Files.newBufferedReader(proc.resolve("stat")))
        {
            String[] words = stat.readLine().trim().split("\\s+");
            if (!words[0].equals("cpu") || words.length < 8)
                return null;
            long all = 0;
            // User, nice, system, idle, waiting for disks, interrupts, soft interrupts, stolen. Guests are
            // contained in user.
            for (int i = 1; i < Math.min(words.length, 9); i++)
                all += Long.parseLong(words[i]);
            long idle = Long.parseLong(words[4]) + Long.parseLong(words[5]);
            return new Processors(all - idle, all);
        }
        catch (IOException | RuntimeException unreadable)
        {
            return null;
        }
    }

    /** The devices, as `major:minor`, on which these folders are. */
    static Set<String> devicesOf(String[] folders)
    {
        Set<String> devices = new HashSet<>();
        for (String folder : folders)
        {
            try
            {
                long device = (Long) Files.getAttribute(Path.of(folder), "unix:dev");
                long major = (device >>> 8 & 0xfff) | (device >>> 32 & ~0xfffL);
                long minor = (device & 0xff) | (device >>> 12 & ~0xffL & 0xffffffffL);
                devices.add(major + ":" + minor);
            }
            catch (IOException | RuntimeException unknown)
            {
                // Of this folder nothing is known.
            }
        }
        return devices;
    }

    /** Those of the devices that the kernel counts: not memory, network or layered file systems. */
    static List<Device> devices(Path proc, Set<String> wanted)
    {
        List<Device> found = new ArrayList<>();
        try
        {
            for (String line : wanted.isEmpty() ? List.<String>of() : Files.readAllLines(proc.resolve("diskstats")))
            {
                String[] words = line.trim().split("\\s+");
                if (words.length >= 14 && wanted.contains(words[0] + ":" + words[1]))
                    found.add(new Device(words[2], Long.parseLong(words[12]), Long.parseLong(words[13])));
            }
        }
        catch (IOException | RuntimeException unreadable)
        {
            found.clear();
        }
        return found;
    }
}

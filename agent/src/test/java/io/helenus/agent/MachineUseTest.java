package io.helenus.agent;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertNull;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.Set;

import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

class MachineUseTest
{
    @TempDir
    Path folder;

    private void write(String name, String text) throws IOException
    {
        Path file = folder.resolve(name);
        Files.createDirectories(file.getParent());
        Files.writeString(file, text);
    }

    @Test
    void processors() throws IOException
    {
        assertNull(MachineUse.processors(folder));
        write("stat", "cpu  10 1 20 300 40 2 3 4 5 6\ncpu0 1 2 3\n");
        MachineUse.Processors found = MachineUse.processors(folder);
        assertEquals(40, found.busy, "waiting for disks is not busy, guests are in user time");
        assertEquals(380, found.all);
        write("stat", "intr 5\n");
        assertNull(MachineUse.processors(folder));
    }

    @Test
    void devices() throws IOException
    {
        write("diskstats", "   8       0 sda 1 2 3 4 5 6 7 8 9 1000 2500 0 0 0 0\n 259 1 nvme0n1p1 1 2 3\n");
        var found = MachineUse.devices(folder, Set.of("8:0", "259:1"));
        assertEquals(1, found.size(), "a line that is too short tells nothing");
        assertEquals("sda", found.get(0).name);
        assertEquals(1000, found.get(0).busyMs);
        assertEquals(2500, found.get(0).queuedMs);
        assertTrue(MachineUse.devices(folder, Set.of("0:1")).isEmpty());
        assertTrue(MachineUse.devices(folder.resolve("nowhere"), Set.of("8:0")).isEmpty());
        assertTrue(MachineUse.devicesOf(new String[] { folder.resolve("nowhere").toString() }).isEmpty());
        assertEquals(1, MachineUse.devicesOf(new String[] { folder.toString(), folder.toString() }).size());
    }

    @Test
    void theTightestLimitOfVersionTwoCounts() throws IOException
    {
        Path mount = folder.resolve("cgroup");
        write("self/cgroup", "0::/node/inner\n");
        write("self/mountinfo", "41 31 0:38 / " + mount + " rw,relatime shared:9 - cgroup2 cgroup2 rw\n");
        write("cgroup/node/inner/cpu.max", "max 100000\n");
        assertNull(CpuGroup.read(folder.resolve("self")), "no limit");
        write("cgroup/node/cpu.max", "40000 100000\n");
        write("cgroup/node/cpu.stat", "usage_usec 7\nnr_periods 10\nnr_throttled 3\n");
        write("cgroup/node/inner/cpu.max", "200000 100000\n");
        CpuGroup group = CpuGroup.read(folder.resolve("self"));
        assertEquals(0.4, group.cores, 1e-9);
        assertEquals(7_000, group.usedNanos);
        assertEquals(10, group.periods);
        assertEquals(3, group.throttled);
    }

    @Test
    void versionOneAlsoWhereOnlyAPartIsMounted() throws IOException
    {
        Path mount = folder.resolve("cpu");
        write("self/cgroup", "4:memory:/x\n2:cpuacct:/\n1:cpu:/pod/abc\n0::/\n");
        write("self/mountinfo", "32 31 0:29 /pod/abc " + mount + " rw - cgroup cgroup rw,cpu\n");
        write("cpu/cpu.cfs_quota_us", "3000\n");
        write("cpu/cpu.cfs_period_us", "10000\n");
        write("cpu/cpu.stat", "nr_periods 20\nnr_throttled 5\nthrottled_time 9\n");
        CpuGroup group = CpuGroup.read(folder.resolve("self"));
        assertEquals(0.3, group.cores, 1e-9);
        assertEquals(-1, group.usedNanos, "counted elsewhere");
        assertEquals(5, group.throttled);
        write("cpu/cpu.cfs_quota_us", "-1\n");
        assertNull(CpuGroup.read(folder.resolve("self")));
        write("self/cgroup", "rubbish\n1:cpu:../../etc\n");
        assertNull(CpuGroup.read(folder.resolve("self")));
    }
}

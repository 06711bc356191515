package io.helenus.agent;

import java.nio.ByteBuffer;
import java.util.UUID;

/**
 * What a node uses of what it has, over the last second. Shares are in ten-thousandths, so that no value can
 * be other than a number.
 */
final class Resources
{
    static final int WHOLE = 10_000;
    /** A share that cannot be measured here. */
    static final int UNKNOWN = 0xFFFF;
    /** Tasks that nobody has counted of late; reports say 0. */
    static final int UNKNOWN_TASKS = -1;

    /** The node as Cassandra calls it, whatever its address. */
    UUID hostId = new UUID(0, 0);
    /** When it was measured, by {@link System#nanoTime}. */
    long sampledNanos;

    /** Of the processors that the node may use: in use by it and by all that shares them. */
    int cpuNode = UNKNOWN;
    /** The same, by this process alone. */
    int cpuProcess = UNKNOWN;
    /** Of all processors of the machine. */
    int cpuMachine = UNKNOWN;
    /** Processors that the node may use, in thousandths. */
    int coresMilli;

    /** Of the time, in which the busiest device of the data directories had something to do. */
    int diskUse = UNKNOWN;
    /** Mean number of requests at that device, in thousandths. */
    int diskQueueMilli;

    long heapUsed;
    long heapMax;
    /** Of the time, in which the collector stopped the process. */
    int collecting = UNKNOWN;
    /** Milliseconds of that since the process started. */
    long collectedMs;

    int readPending;
    int readActive;
    int readMax;
    int mutationPending;
    int mutationActive;
    int mutationMax;
    int compactionsPending = UNKNOWN_TASKS;

    /** A share as it is sent. */
    static int share(double part)
    {
        if (Double.isNaN(part))
            return UNKNOWN;
        return (int) Math.round(Math.min(1, Math.max(0, part)) * WHOLE);
    }

    /** The fields of a report, in the order of its format. */
    void put(ByteBuffer to)
    {
        for (int share : new int[] { cpuNode, cpuProcess, cpuMachine, diskUse, collecting })
            to.putShort((short) share);
        to.putInt(diskQueueMilli).putInt(coresMilli);
        to.putLong(heapUsed).putLong(heapMax).putLong(collectedMs);
        to.putInt(readPending).putInt(readActive).putInt(readMax);
        to.putInt(mutationPending).putInt(mutationActive).putInt(mutationMax);
        to.putInt(Math.max(0, compactionsPending)).putInt(0);
        to.putLong(hostId.getMostSignificantBits()).putLong(hostId.getLeastSignificantBits());
    }
}

package io.helenus.agent;

import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.util.Map;
import java.util.function.Supplier;

/**
 * The priority that a client gives a request: key {@value #KEY} of its custom payload, a signed 4-byte
 * big-endian integer. Smaller goes first; a request without one has priority 0.
 *
 * <p>One thread serves a request until its reads are submitted to the READ stage, so the priority is passed
 * in a thread-local variable.
 */
final class ClientPriority
{
    static final String KEY = "helenus-priority";

    private static final ThreadLocal<Integer> CURRENT = new ThreadLocal<>();

    private ClientPriority()
    {
    }

    /** The priority of the request that this thread serves. */
    static int current()
    {
        Integer priority = CURRENT.get();
        return priority == null ? 0 : priority;
    }

    /** Serves a request with the priority in its payload, if any. */
    static <T> T serve(Map<String, ByteBuffer> customPayload, Supplier<T> request)
    {
        Integer priority = of(customPayload);
        if (priority == null)
            return request.get();
        CURRENT.set(priority);
        try
        {
            return request.get();
        }
        finally
        {
            CURRENT.remove();
        }
    }

    /** Null if the payload has none, or not in four bytes: a hint is never an error. */
    static Integer of(Map<String, ByteBuffer> customPayload)
    {
        ByteBuffer value = customPayload == null ? null : customPayload.get(KEY);
        if (value == null || value.remaining() != Integer.BYTES)
            return null;
        return value.duplicate().order(ByteOrder.BIG_ENDIAN).getInt();
    }
}

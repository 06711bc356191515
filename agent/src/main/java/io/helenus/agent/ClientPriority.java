package io.helenus.agent;

import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.util.Map;
import java.util.function.Supplier;

/**
 * The priority that a client gives a request: key {@value #KEY} of its custom payload, a signed integer
 * of 4 bytes, big-endian; smaller is sooner, 0 is what a request without one has.
 *
 * <p>A request is served by one thread up to the moment at which its reads are handed to the READ stage,
 * so the priority travels in a thread-local variable.
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

    /** Serves a request under the priority that its payload names, if any. */
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

    /** Null if the payload names none, or not in four bytes: a hint is never an error. */
    static Integer of(Map<String, ByteBuffer> customPayload)
    {
        ByteBuffer value = customPayload == null ? null : customPayload.get(KEY);
        if (value == null || value.remaining() != Integer.BYTES)
            return null;
        return value.duplicate().order(ByteOrder.BIG_ENDIAN).getInt();
    }
}

package io.helenus.agent;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertNull;
import static org.junit.jupiter.api.Assertions.assertThrows;

import java.io.IOException;
import java.lang.invoke.MethodHandle;
import java.lang.reflect.Modifier;
import java.util.Arrays;
import java.util.Set;
import java.util.stream.Collectors;

import org.apache.cassandra.cql3.QueryHandler;
import org.junit.jupiter.api.Test;

class HandlerCallsTest
{
    /** As a version of Cassandra has it for which the agent was written. */
    interface Known
    {
        CharSequence process(String statement, long startNanos);

        default int added()
        {
            return 1;
        }
    }

    /** A later version. */
    interface Later
    {
        CharSequence process(String statement, long startNanos, int more);
    }

    static class Handler implements Known
    {
        @Override
        public String process(String statement, long startNanos)
        {
            return statement + startNanos;
        }
    }

    @Test
    void whatAVersionCallsAndTheAgentLacksIsFound()
    {
        assertNull(HandlerCalls.missing(QueryHandler.class));
        assertEquals("CharSequence process(String, long, int)", HandlerCalls.missing(Later.class));
        Set<String> own = Arrays.stream(ReadOrderHandler.class.getDeclaredMethods())
                                .filter(method -> Modifier.isPublic(method.getModifiers()) && !method.isBridge())
                                .map(HandlerCalls::signature).collect(Collectors.toSet());
        assertEquals(own, HandlerCalls.OWN);
    }

    @Test
    void whatAVersionDoesNotHaveIsNotCalled() throws Throwable
    {
        MethodHandle process =
            HandlerCalls.find(Known.class, "process", CharSequence.class, String.class, long.class);
        Known handler = new Handler();
        assertEquals("q7", (CharSequence) process.invokeExact(handler, "q", 7L));
        assertNull(HandlerCalls.find(Later.class, "process", CharSequence.class, String.class, long.class));
        assertThrows(IOException.class, () -> HandlerCalls.rethrow(new IOException()));
    }
}

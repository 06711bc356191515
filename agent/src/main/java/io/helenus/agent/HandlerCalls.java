package io.helenus.agent;

import java.lang.invoke.MethodHandle;
import java.lang.invoke.MethodHandles;
import java.lang.invoke.MethodType;
import java.lang.reflect.Method;
import java.lang.reflect.Modifier;
import java.util.Arrays;
import java.util.Set;
import java.util.stream.Collectors;

/** What a version of Cassandra calls of a query handler, and what it can be called. */
final class HandlerCalls
{
    private static final MethodHandles.Lookup LOOKUP = MethodHandles.lookup();

    private HandlerCalls()
    {
    }

    /**
     * The methods of {@link ReadOrderHandler}. Not asked of the class: it names classes that not all versions have, so
     * that its methods cannot be listed everywhere.
     */
    static final Set<String> OWN = Set.of(
        "CQLStatement parse(String, QueryState, QueryOptions)",
        "Prepared prepare(String, ClientState, Map)",
        "Prepared getPrepared(MD5Digest)",
        "ResultMessage process(CQLStatement, QueryState, QueryOptions, Map, RequestTime)",
        "ResultMessage processPrepared(CQLStatement, QueryState, QueryOptions, Map, RequestTime)",
        "ResultMessage processBatch(BatchStatement, QueryState, BatchQueryOptions, Map, RequestTime)",
        "ResultMessage process(CQLStatement, QueryState, QueryOptions, Map, long)",
        "ResultMessage processPrepared(CQLStatement, QueryState, QueryOptions, Map, long)",
        "ResultMessage processBatch(BatchStatement, QueryState, BatchQueryOptions, Map, long)");

    /** A method of {@code handlers} that is none of {@link #OWN}: calling it would fail. Null if there is none. */
    static String missing(Class<?> handlers)
    {
        for (Method asked : handlers.getMethods())
            if (Modifier.isAbstract(asked.getModifiers()) && !OWN.contains(signature(asked)))
                return signature(asked);
        return null;
    }

    static String signature(Method method)
    {
        String arguments = Arrays.stream(method.getParameterTypes()).map(Class::getSimpleName)
                                 .collect(Collectors.joining(", "));
        return method.getReturnType().getSimpleName() + ' ' + method.getName() + '(' + arguments + ')';
    }

    /** A method of {@code handlers} with these arguments; null if this version has no such method. */
    static MethodHandle find(Class<?> handlers, String name, Class<?> result, Class<?>... arguments)
    {
        try
        {
            return LOOKUP.findVirtual(handlers, name, MethodType.methodType(result, arguments));
        }
        catch (NoSuchMethodException | IllegalAccessException notThere)
        {
            return null;
        }
    }

    /** Cassandra recognises errors for the client by their class, so they are passed on unwrapped. */
    @SuppressWarnings("unchecked")
    static <T, E extends Throwable> T rethrow(Throwable failure) throws E
    {
        throw (E) failure;
    }
}

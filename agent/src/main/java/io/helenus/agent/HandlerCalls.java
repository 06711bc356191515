package io.helenus.agent;

import java.lang.invoke.MethodHandle;
import java.lang.invoke.MethodHandles;
import java.lang.invoke.MethodType;
import java.lang.reflect.Method;
import java.lang.reflect.Modifier;

/** What a version of Cassandra calls of a query handler, and what it can be called. */
final class HandlerCalls
{
    private static final MethodHandles.Lookup LOOKUP = MethodHandles.lookup();

    private HandlerCalls()
    {
    }

    /**
     * A method of {@code handlers} that {@code own}, a class of handlers made for other versions, does not have: calling
     * it would fail. Null if there is none. {@code own} may name classes that this version lacks, so not all of its
     * methods can be listed.
     */
    static Method missing(Class<?> handlers, Class<?> own)
    {
        for (Method asked : handlers.getMethods())
        {
            if (!Modifier.isAbstract(asked.getModifiers()))
                continue;
            MethodType type = MethodType.methodType(asked.getReturnType(), asked.getParameterTypes());
            try
            {
                MethodHandle found = LOOKUP.findVirtual(own, asked.getName(), type);
                // `revealDirect` alone would tell of `own`, whoever has it.
                Method method = LOOKUP.revealDirect(found).reflectAs(Method.class, LOOKUP);
                if (method.getDeclaringClass().isInterface())
                    return asked;
            }
            catch (NoSuchMethodException | IllegalAccessException notThere)
            {
                return asked;
            }
        }
        return null;
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

package io.helenus.agent;

import java.util.function.UnaryOperator;

/** The agent's settings: Java system properties, so that a node is configured in one file. */
final class Settings
{
    static final String WAIT_MAX_MS = "helenus.agent.wait_max_ms";
    static final String DUE_EVERY = "helenus.agent.due_every";

    /** A read that has waited longer than this is due; see {@link ReadQueue}. */
    final long waitMaxMs;
    /** While reads are due, at least every {@code dueEvery}-th read started is a due one. */
    final int dueEvery;

    /** @throws IllegalArgumentException with a sentence for the operator */
    Settings(UnaryOperator<String> property)
    {
        waitMaxMs = number(property, WAIT_MAX_MS, 500, 3_600_000);
        dueEvery = number(property, DUE_EVERY, 2, 1_000_000);
    }

    private static int number(UnaryOperator<String> property, String name, int usual, int max)
    {
        String text = property.apply(name);
        if (text == null)
            return usual;
        try
        {
            int value = Integer.parseInt(text.trim());
            if (value >= 1 && value <= max)
                return value;
        }
        catch (NumberFormatException notANumber)
        {
            // Reported below.
        }
        throw new IllegalArgumentException(
            "-D" + name + "=" + text + ": want a whole number from 1 to " + max + "; without it, " + usual + " is used");
    }
}

package io.helenus.agent;

import java.util.function.UnaryOperator;

/** The agent's settings: Java system properties, so that a node is configured in one file. */
final class Settings
{
    static final String WAIT_MAX_MS = "helenus.agent.wait_max_ms";
    static final String DUE_EVERY = "helenus.agent.due_every";
    static final String REPORT_PORT = "helenus.agent.report_port";
    static final String REPORT_ADDRESS = "helenus.agent.report_address";
    static final String REPORT_SECRET_FILE = "helenus.agent.report_secret_file";
    static final String REPORT_INTERVAL_MS = "helenus.agent.report_interval_ms";
    static final String REPORT_CONNECTIONS_MAX = "helenus.agent.report_connections_max";

    /** Also where each application has a proxy of its own. */
    private static final int CONNECTIONS = 512;

    /** A read that has waited longer than this is due; see {@link ReadQueue}. */
    final long waitMaxMs;
    /** While reads are due, at least every {@code dueEvery}-th read started is a due one. */
    final int dueEvery;
    /** 0: no reports. */
    final int reportPort;
    /** A local address; null: the address that clients connect to. */
    final String reportAddress;
    /** Null: proxies on this machine may connect without a secret, and no others. */
    final String reportSecretFile;
    final int reportIntervalMs;
    /** One for each proxy. */
    final int reportConnectionsMax;
    /** A sentence for the operator if there are no reports because one of their settings is wrong, else null. */
    final String reportProblem;

    /** @throws IllegalArgumentException with a sentence for the operator, if reads cannot be ordered like that */
    Settings(UnaryOperator<String> property)
    {
        waitMaxMs = number(property, WAIT_MAX_MS, 500, 1, 3_600_000);
        dueEvery = number(property, DUE_EVERY, 2, 1, 1_000_000);
        reportAddress = property.apply(REPORT_ADDRESS);
        reportSecretFile = property.apply(REPORT_SECRET_FILE);
        int port = 0;
        int intervalMs = 200;
        int connectionsMax = CONNECTIONS;
        String problem = null;
        try
        {
            intervalMs = number(property, REPORT_INTERVAL_MS, 200, 50, 2_000);
            connectionsMax = number(property, REPORT_CONNECTIONS_MAX, CONNECTIONS, 1, 10_000);
            port = number(property, REPORT_PORT, 9181, 0, 65_535);
        }
        catch (IllegalArgumentException wrong)
        {
            // The order of reads does not depend on reports.
            problem = wrong.getMessage();
        }
        reportPort = port;
        reportIntervalMs = intervalMs;
        reportConnectionsMax = connectionsMax;
        reportProblem = problem;
    }

    private static int number(UnaryOperator<String> property, String name, int usual, int min, int max)
    {
        String text = property.apply(name);
        if (text == null)
            return usual;
        try
        {
            int value = Integer.parseInt(text.trim());
            if (value >= min && value <= max)
                return value;
        }
        catch (NumberFormatException notANumber)
        {
            // Reported below.
        }
        throw new IllegalArgumentException(
            "-D" + name + "=" + text + ": want a whole number from " + min + " to " + max
            + "; without it, " + usual + " is used");
    }
}

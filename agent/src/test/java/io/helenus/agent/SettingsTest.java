package io.helenus.agent;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertNull;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.util.HashMap;
import java.util.Map;

import org.junit.jupiter.api.Test;

class SettingsTest
{
    @Test
    void defaultsAndValues()
    {
        Settings usual = new Settings(name -> null);
        assertEquals(500, usual.waitMaxMs);
        assertEquals(2, usual.dueEvery);
        assertEquals(9181, usual.reportPort);
        assertNull(usual.reportSecretFile);
        assertEquals(512, usual.reportConnectionsMax);
        Map<String, String> values = Map.of(Settings.WAIT_MAX_MS, "3600000", Settings.DUE_EVERY, " 1 ",
                                            Settings.REPORT_PORT, "0", Settings.REPORT_INTERVAL_MS, "50");
        Settings set = new Settings(values::get);
        assertEquals(3_600_000, set.waitMaxMs);
        assertEquals(1, set.dueEvery);
        assertEquals(0, set.reportPort);
        assertEquals(50, set.reportIntervalMs);
    }

    @Test
    void nonsenseIsExplained()
    {
        for (String bad : new String[] { "", "0", "-1", "3600001", "1s", "99999999999" })
        {
            String message = assertThrows(IllegalArgumentException.class,
                                          () -> new Settings(name -> name.equals(Settings.WAIT_MAX_MS) ? bad : null))
                             .getMessage();
            assertTrue(message.startsWith("-Dhelenus.agent.wait_max_ms=" + bad + ": want"), message);
        }
    }

    @Test
    void wrongSettingsOfReportsSwitchOffOnlyReports()
    {
        for (String name : new String[] { Settings.REPORT_PORT, Settings.REPORT_INTERVAL_MS,
                                          Settings.REPORT_CONNECTIONS_MAX })
        {
            Map<String, String> values = Map.of(name, "x", Settings.WAIT_MAX_MS, "7");
            Settings settings = new Settings(values::get);
            assertEquals(7, settings.waitMaxMs);
            assertEquals(0, settings.reportPort);
            assertTrue(settings.reportProblem.startsWith("-D" + name + "=x: want"), settings.reportProblem);
        }
        assertNull(new Settings(name -> null).reportProblem);
    }

    @Test
    void payload()
    {
        assertNull(ClientPriority.of(null));
        assertNull(ClientPriority.of(Map.of()));
        Map<String, ByteBuffer> payload = new HashMap<>();
        payload.put(ClientPriority.KEY, null);
        assertNull(ClientPriority.of(payload));
        for (int length : new int[] { 0, 3, 5 })
            assertNull(ClientPriority.of(Map.of(ClientPriority.KEY, ByteBuffer.allocate(length))));
        ByteBuffer value = ByteBuffer.wrap(new byte[] { 9, -1, -1, -1, -2, 9 }).position(1).limit(5);
        value = value.order(ByteOrder.LITTLE_ENDIAN);
        assertEquals(-2, ClientPriority.of(Map.of(ClientPriority.KEY, value)));
        assertEquals(4, value.remaining(), "others read the payload too");
    }

    @Test
    void priorityLastsAsLongAsTheRequest()
    {
        Map<String, ByteBuffer> payload =
            Map.of(ClientPriority.KEY, ByteBuffer.wrap(new byte[] { 0, 0, 0, 7 }));
        assertEquals(7, ClientPriority.serve(payload, ClientPriority::current));
        assertEquals(0, ClientPriority.current());
        assertThrows(IllegalStateException.class,
                     () -> ClientPriority.serve(payload, () -> { throw new IllegalStateException(); }));
        assertEquals(0, ClientPriority.current());
        assertEquals(0, ClientPriority.serve(Map.of(), ClientPriority::current));
    }
}

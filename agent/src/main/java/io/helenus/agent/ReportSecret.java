package io.helenus.agent;

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.attribute.FileTime;
import java.util.Arrays;

/** The secret that a node shares with its proxies: the contents of a file, less a line break at its end. */
final class ReportSecret
{
    /** Shorter ones could be found by trying, by whoever has heard one exchange. */
    static final int BYTES_MIN = 16;
    private static final int BYTES_MAX = 4_096;

    private final Path file;
    private FileTime modified;
    private byte[] secret;

    /** {@code file}: null for none. */
    ReportSecret(String file) throws IOException
    {
        this.file = file == null ? null : Path.of(file);
        secret = this.file == null ? ReportProtocol.OPEN : read();
    }

    boolean isSet()
    {
        return file != null;
    }

    /** As it is in the file now; while that cannot be used, as it was. */
    byte[] current()
    {
        try
        {
            if (file != null && !Files.getLastModifiedTime(file).equals(modified))
                secret = read();
        }
        catch (IOException unusable)
        {
            // A file that is being replaced is looked at again for the next connection.
        }
        return secret;
    }

    private byte[] read() throws IOException
    {
        FileTime now = Files.getLastModifiedTime(file);
        if (Files.size(file) > BYTES_MAX)
            throw new IOException(file + " has more than " + BYTES_MAX + " bytes");
        byte[] bytes = Files.readAllBytes(file);
        int end = bytes.length;
        if (end > 0 && bytes[end - 1] == '\n')
            end--;
        if (end > 0 && bytes[end - 1] == '\r')
            end--;
        if (end < BYTES_MIN)
            throw new IOException("the secret in " + file + " has less than " + BYTES_MIN + " bytes");
        modified = now;
        return Arrays.copyOf(bytes, end);
    }
}

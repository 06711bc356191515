package conformance;

import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.atomic.AtomicBoolean;

/** Threads that write and read, one request after the other, until standard input ends. */
final class Loop {
  private static final int ERRORS_MAX = 3;

  interface Write {
    void run(int key, int value);
  }

  interface Read {
    int run(int key);
  }

  private final AtomicBoolean stop = new AtomicBoolean();
  private int requests;
  private int failed;
  private long longestMs;
  private final List<String> errors = new ArrayList<>();

  static List<String> schema(String keyspace) {
    return List.of(
        "CREATE KEYSPACE IF NOT EXISTS " + keyspace
            + " WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1}",
        "CREATE TABLE IF NOT EXISTS " + keyspace + ".t (k int PRIMARY KEY, v int)");
  }

  void run(int tasks, Write write, Read read) throws Exception {
    List<Thread> threads = new ArrayList<>();
    for (int n = 0; n < tasks; n++) {
      int key = n;
      Thread thread = new Thread(() -> repeat(key, write, read));
      threads.add(thread);
      thread.start();
    }
    System.out.println("running");
    while (System.in.read() >= 0) {
      // Nothing is said.
    }
    stop.set(true);
    for (Thread thread : threads) {
      thread.join();
    }
  }

  private void repeat(int key, Write write, Read read) {
    for (int n = 1; !stop.get(); n++) {
      int value = n;
      boolean written =
          one(
              () -> {
                write.run(key, value);
                return null;
              });
      if (written) {
        one(
            () -> {
              int found = read.run(key);
              return found == value ? null : "key " + key + " is " + found + ", not " + value;
            });
      }
    }
  }

  private interface Request {
    /** What is wrong with the answer, or null. */
    String run();
  }

  private boolean one(Request request) {
    long began = System.nanoTime();
    String why;
    try {
      why = request.run();
    } catch (RuntimeException error) {
      why = error.getClass().getSimpleName() + ": " + error.getMessage();
    }
    long ms = (System.nanoTime() - began) / 1_000_000;
    synchronized (this) {
      requests++;
      longestMs = Math.max(longestMs, ms);
      if (why != null) {
        failed++;
        if (errors.size() < ERRORS_MAX) {
          errors.add(why.substring(0, Math.min(why.length(), 300)));
        }
      }
    }
    return why == null;
  }

  /** As JSON. */
  @Override
  public synchronized String toString() {
    List<String> quoted = new ArrayList<>();
    for (String error : errors) {
      quoted.add('"' + error.replaceAll("[\\p{Cntrl}\\\\\"]", " ") + '"');
    }
    return String.format(
        "{\"requests\": %d, \"failed\": %d, \"longest_ms\": %d, \"errors\": [%s]}",
        requests, failed, longestMs, String.join(", ", quoted));
  }
}

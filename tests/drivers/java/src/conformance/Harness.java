package conformance;

import java.util.LinkedHashMap;
import java.util.Map;
import java.util.Objects;
import java.util.function.BooleanSupplier;

/** Runs named checks one after the other and prints one line for each. */
final class Harness {
  interface Check {
    void run() throws Exception;
  }

  private final String driver;
  private final Map<String, Check> checks = new LinkedHashMap<>();

  Harness(String driver) {
    this.driver = driver;
  }

  void add(String name, Check check) {
    checks.put(name, check);
  }

  /** Returns how many failed. */
  int run() {
    int failed = 0;
    for (Map.Entry<String, Check> entry : checks.entrySet()) {
      try {
        entry.getValue().run();
        System.out.println("ok " + driver + "/" + entry.getKey());
      } catch (Exception | AssertionError error) {
        failed++;
        String why = (error.getClass().getSimpleName() + ": " + error.getMessage()).replace('\n', ' ');
        why = why.substring(0, Math.min(why.length(), 600));
        System.out.println("FAIL " + driver + "/" + entry.getKey() + ": " + why);
        if (System.getenv("HELENUS_DRIVERS_TRACEBACK") != null) {
          error.printStackTrace();
        }
      }
    }
    return failed;
  }

  static void equal(Object found, Object wanted, String what) {
    if (!Objects.deepEquals(found, wanted)) {
      throw new AssertionError(String.format("%s: found %.200s, wanted %.200s", what, found, wanted));
    }
  }

  static void expect(boolean condition, String message) {
    if (!condition) {
      throw new AssertionError(message);
    }
  }

  static <E extends Exception> E raises(Class<E> wanted, Check check) throws Exception {
    try {
      check.run();
    } catch (Exception error) {
      if (wanted.isInstance(error)) {
        return wanted.cast(error);
      }
      throw error;
    }
    throw new AssertionError("no " + wanted.getSimpleName());
  }

  static void eventually(String what, BooleanSupplier condition) throws InterruptedException {
    long deadline = System.nanoTime() + 15_000_000_000L;
    while (!condition.getAsBoolean()) {
      expect(System.nanoTime() < deadline, "not within 15 s: " + what);
      Thread.sleep(100);
    }
  }
}

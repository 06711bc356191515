'use strict';

const assert = require('node:assert');

/** Runs every [name, function] pair, prints a line for each and returns how many failed. */
async function runAll(driver, checks, context) {
  let failed = 0;
  for (const [name, run] of checks) {
    try {
      await run(context);
      console.log(`ok ${driver}/${name}`);
    } catch (error) {
      failed++;
      const why = `${error.name}: ${error.message}`.replaceAll('\n', ' ').slice(0, 600);
      console.log(`FAIL ${driver}/${name}: ${why}`);
      if (process.env.HELENUS_DRIVERS_TRACEBACK) {
        console.error(error);
      }
    }
  }
  return failed;
}

/** Waits until the (possibly asynchronous) condition holds. */
async function eventually(what, condition) {
  const deadline = Date.now() + 15_000;
  while (!(await condition())) {
    assert.ok(Date.now() < deadline, `not within 15 s: ${what}`);
    await new Promise((resolve) => setTimeout(resolve, 100));
  }
}

/** Calls an asynchronous function and returns the error it must end with. */
async function rejects(run) {
  try {
    await run();
  } catch (error) {
    return error;
  }
  throw new assert.AssertionError({ message: 'no error' });
}

module.exports = { runAll, eventually, rejects };

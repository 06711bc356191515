//! Rows as the driver hands them over and takes them.

use helenus_rows::Bytes;
use scylla::serialize::SerializationError;
use scylla::serialize::row::{RowSerializationContext, SerializeRow};
use scylla::serialize::writers::RowWriter;

/// Values as they are.
#[derive(Clone, Debug)]
pub(crate) struct Values(pub Vec<Bytes>);

impl SerializeRow for Values {
    fn serialize(
        &self,
        _: &RowSerializationContext<'_>,
        writer: &mut RowWriter<'_>,
    ) -> Result<(), SerializationError> {
        for value in &self.0 {
            let cell = writer.make_cell_writer();
            match value {
                None => {
                    cell.set_null();
                }
                Some(value) => {
                    cell.set_value(value).map_err(SerializationError::new)?;
                }
            }
        }
        Ok(())
    }

    fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}
